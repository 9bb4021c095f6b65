"""Held-out rows: the right share of every class, copies together, no class left out."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesvm.tables._fitting import equal_rows, held_out_rows


def test_shares():
    labels = np.repeat(["a", "b", "c"], [500, 300, 5])
    held = held_out_rows(labels, np.arange(805), 0.2, 0)
    _, counts = np.unique(labels[held], return_counts=True)
    assert counts.tolist() == [100, 60, 1]
    assert (np.diff(held) > 0).all()


def test_total_is_right_even_if_no_class_has_a_whole_share():
    labels = np.repeat(np.arange(100), 4)
    assert len(held_out_rows(labels, np.arange(400), 0.2, 0)) == 80


def test_seeds_differ_and_repeat():
    labels = np.repeat([0, 1], 50)
    groups = np.arange(100)
    one, again, other = (held_out_rows(labels, groups, 0.2, seed) for seed in (1, 1, 2))
    assert one.tolist() == again.tolist() != other.tolist()


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), min_size=2, max_size=60),
    st.sampled_from([0.1, 0.2, 0.5, 0.9]),
    st.integers(0, 3),
)
def test_groups_stay_together_and_classes_stay(rows, share, seed):
    labels, groups = np.array(rows).T
    groups = np.unique(groups, return_inverse=True)[1]
    held = held_out_rows(labels, groups, share, seed)
    rest = np.delete(np.arange(len(labels)), held)
    assert not set(groups[held]) & set(groups[rest])
    assert set(labels[rest]) == set(labels)
    assert len(held) <= round(share * len(labels)) + len(labels) // 2


def test_single_rows_are_never_held_out():
    labels = np.array(["often"] * 20 + ["once"])
    for seed in range(20):
        assert 20 not in held_out_rows(labels, np.arange(21), 0.5, seed)


@pytest.mark.parametrize("values", [[1.0, np.nan, 1.0, np.nan], ["a", None, "a", None]])
def test_equal_rows(values):
    table = pd.DataFrame({"x": values, "y": [1, 1, 1, 2]})
    groups = equal_rows(table)
    assert groups[0] == groups[2]
    assert len(set(groups.tolist())) == 3
    assert equal_rows(table[["x"]]).tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])


def test_equal_rows_of_dates():
    days = pd.to_datetime(["2024-01-01", None, "2024-01-01", None])
    assert len(np.unique(equal_rows(pd.DataFrame({"d": days})))) == 2
