"""Which columns the answers depend on."""

import numpy as np
import pandas as pd
import pytest

from bayesvm.tables import column_relevance, table_classifier

from .data import FAST, mixed_table


@pytest.fixture(scope="module")
def pipeline():
    table = mixed_table()
    return table_classifier("species", **FAST).fit(table, table["species"])


def test_shares_of_the_columns_in_order(pipeline):
    relevance = column_relevance(pipeline)
    assert set(relevance.index) == set(pipeline["columns"].names_)
    assert relevance.sum() == pytest.approx(1.0)
    assert relevance.is_monotonic_decreasing
    assert (relevance >= 0).all()
    pd.testing.assert_series_equal(relevance, column_relevance(pipeline))


def test_a_column_and_the_flag_of_its_gaps_move_together(pipeline):
    from bayesvm.tables._predictions import _features_of_columns

    features = _features_of_columns(pipeline)
    n_features = pipeline["model"].n_features_in_
    assert sorted(np.concatenate(list(features.values()))) == list(range(n_features))
    with_gaps = pipeline["imputer"].indicator_.features_
    owner = pipeline["vectoriser"].origins_[with_gaps[0]]
    assert len(pipeline["vectoriser"].origins_) in features[owner]  # the first flag


@pytest.mark.parametrize("seed", range(2))
def test_noise_with_many_features_does_not_outrank_signal(seed):
    rng = np.random.default_rng(seed)
    n = 400
    table = pd.DataFrame(
        {
            "signal": rng.normal(size=n),
            "category": rng.choice(list("abcdefg"), n),
            "code": [f"{v:,}" + "x" for v in rng.integers(1000, 99999, n)],
            "half": rng.normal(size=n),
        }
    )
    y = np.where(
        np.sin(2 * table["signal"]) + 0.7 * table["half"] + 0.3 * rng.normal(size=n) > 0, "up", "down"
    )
    relevance = column_relevance(table_classifier("y").fit(table, y))
    assert set(relevance.index[:2]) == {"signal", "half"}
    assert relevance[["category", "code"]].sum() < 0.35


def test_without_flags_of_gaps():
    table = mixed_table()
    changed = table_classifier("species", **FAST).set_params(imputer__add_indicator=False)
    assert column_relevance(changed.fit(table, table["species"])).sum() == pytest.approx(1.0)
