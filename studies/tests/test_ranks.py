"""Ranks and tests against tables and other packages."""

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from bayesvm_studies.figures import rank_groups
from bayesvm_studies.statistics import compare, rank_rows


def test_ties_share_and_failures_come_last():
    ranks = rank_rows([[0.1, 0.2, 0.1, np.nan], [np.nan, np.nan, np.nan, np.nan], [3, 2, np.nan, 1]])
    assert ranks.tolist() == [[1.5, 3, 1.5, 4], [2.5] * 4, [3, 2, 4, 1]]


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (8, 3.031), (10, 3.164)])
def test_critical_difference_of_demsars_table(k, q):
    rng = np.random.default_rng(k)
    found = compare([str(i) for i in range(k)], rng.random((30, k)))
    assert found.critical_difference == pytest.approx(q * (k * (k + 1) / (6 * 30)) ** 0.5, abs=1e-3)


def test_friedman():
    scores = np.random.default_rng(0).random((25, 4)) + np.array([0.0, 0.1, 0.3, 0.3])
    found = compare(list("abcd"), scores)
    assert found.p_value == pytest.approx(friedmanchisquare(*scores.T).pvalue)
    assert found.as_dict() == pytest.approx(dict(zip("abcd", rank_rows(scores).mean(0), strict=True)))


def test_agrees_with_scikit_posthocs():
    posthocs = pytest.importorskip("scikit_posthocs")
    scores = np.random.default_rng(1).random((40, 5)) + np.linspace(0.0, 0.8, 5)
    found = compare(list("abcde"), scores)
    p_values = posthocs.posthoc_nemenyi_friedman(scores).to_numpy()
    apart = np.abs(found.mean_rank[:, None] - found.mean_rank) > found.critical_difference
    off_diagonal = ~np.eye(5, dtype=bool)
    assert (apart == (p_values < 0.05))[off_diagonal].all()
    assert apart.any()
    assert (~apart)[off_diagonal].any()


def test_with_little_to_compare():
    assert np.isnan(compare(["a", "b"], np.empty((0, 2))).mean_rank).all()
    assert np.isnan(compare(["a", "b"], [[1.0, 2.0]]).critical_difference)
    assert compare(["a", "b", "c"], np.ones((4, 3))).p_value == 1.0


def test_groups_are_the_longest_runs():
    ranks = np.array([1.0, 1.5, 2.0, 2.4, 4.0])
    assert rank_groups(ranks, 1.0) == [(0, 2), (1, 3)]
    assert rank_groups(ranks, 0.1) == []
    assert rank_groups(ranks, 5.0) == [(0, 4)]
    assert rank_groups(ranks, float("nan")) == []
