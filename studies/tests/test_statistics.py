"""Sums over folds against scores of all rows, ranks against tables and other packages."""

import numpy as np
import pytest
from scipy.stats import friedmanchisquare
from sklearn.metrics import log_loss, roc_auc_score

from bayesvm.metrics import calibration_gap, expected_calibration_error, reliability_curve
from bayesvm_studies.figures import rank_groups
from bayesvm_studies.results import Result
from bayesvm_studies.statistics import (
    N_BINS,
    compare,
    holm,
    pool,
    rank_rows,
    score_sums,
    signed_rank,
    two_class_auc,
)
from studies.tests.doubles import as_read, task


@pytest.fixture
def judged():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([0.6, 0.8, 1.1, 0.5], 400)
    y = np.array([rng.choice(4, p=p) for p in proba])
    return np.array([2.0, 3.0, 5.0, 9.0])[y], proba, np.array([2.0, 3.0, 5.0, 9.0])


def as_folds(y, proba, classes, n_folds=7):
    parts = np.array_split(np.random.default_rng(1).permutation(len(y)), n_folds)
    return [as_read(task(split=i), **score_sums(y[p], proba[p], classes)) for i, p in enumerate(parts)]


def test_pooled_folds_are_all_rows_at_once(judged):
    y, proba, classes = judged
    pooled = pool(as_folds(*judged))
    one_hot = (y[:, None] == classes).astype(float)
    assert pooled.n_rows == 400
    assert pooled.accuracy == np.mean(classes[proba.argmax(1)] == y)
    assert pooled.log_loss == pytest.approx(log_loss(y, proba, labels=classes), rel=1e-6)
    assert pooled.brier == pytest.approx(((proba - one_hot) ** 2).sum(1).mean(), rel=1e-6)
    expected = expected_calibration_error(y, proba, labels=classes, n_bins=N_BINS)
    assert pooled.ece == pytest.approx(expected, rel=1e-5)


def test_the_curve_is_that_of_all_rows(judged):
    y, proba, classes = judged
    curve, whole = pool(as_folds(*judged)).curve(), reliability_curve(y, proba, labels=classes, n_bins=N_BINS)
    for ours, theirs in zip(curve, whole, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert calibration_gap(curve) == pytest.approx(pool(as_folds(*judged)).ece)


def test_no_probability_costs_what_scikit_learn_says():
    y, proba = np.array([0, 1]), np.array([[0.0, 1.0], [0.0, 1.0]])
    found = pool([Result.of(task(), "ok", **score_sums(y, proba, np.arange(2)))])
    assert found.log_loss == pytest.approx(log_loss(y, proba))
    assert found.log_loss == pytest.approx(18.02, abs=0.01)
    assert found.brier == pytest.approx(1.0)


def test_rows_that_do_not_quite_sum_to_one_are_made_to():
    y, proba = np.array([0, 1]), np.array([[0.4, 0.6], [0.3, 0.7]])
    off, exact = (score_sums(y, scale * proba, np.arange(2)) for scale in (1.0005, 1.0))
    np.testing.assert_allclose(off.pop("bins"), exact.pop("bins"))
    assert off == pytest.approx(exact)


@pytest.mark.parametrize(
    ("proba", "message"),
    [
        ([[0.5, np.nan]], "not finite"),
        ([[1.5, -0.5]], "negative"),
        ([[0.5, 0.1]], "sum to 0.6"),
        ([[0.5, 0.3, 0.2]], "shape"),
    ],
)
def test_what_are_no_probabilities(proba, message):
    with pytest.raises(ValueError, match=message):
        score_sums(np.array([0]), np.array(proba), np.arange(2))


def test_failures_cannot_be_pooled():
    with pytest.raises(ValueError, match="only folds with scores"):
        pool([Result.of(task(), "error", error="no")])
    with pytest.raises(ValueError, match="at least one"):
        pool([])


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


def test_holm_by_hand():
    p = {"a": 0.01, "b": 0.02, "c": 0.03, "d": 0.04}
    assert holm(p) == pytest.approx({"a": 0.04, "b": 0.06, "c": 0.06, "d": 0.06})
    assert holm({"a": 0.5, "b": 0.6}) == {"a": 1.0, "b": 1.0}
    found = holm({"a": 0.02, "b": float("nan"), "c": 0.5})  # two tests, not three
    assert (found["a"], found["c"]) == pytest.approx((0.04, 0.5))
    assert np.isnan(found["b"])
    assert holm({}) == {}


def test_signed_ranks_by_hand():
    # Differences 1, -2, 3, 4: the ranks of the negative one sum to 2. Of 16 signs three have a sum
    # of at most 2 ({}, {1}, {2}), on either side.
    assert signed_rank([1, 0, 3, 4], [0, 2, 0, 0]) == pytest.approx(2 * 3 / 16)
    # What is equal but for the last digits is left out.
    assert signed_rank([1, 0, 3, 4, 0.1 + 0.2], [0, 2, 0, 0, 0.3]) == pytest.approx(2 * 3 / 16)
    assert np.isnan(signed_rank([1.0, 1.0], [1.0, 1.0]))
    assert np.isnan(signed_rank([], []))


def test_area_under_the_curve():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(200) < 0.3, 7.0, 2.0)
    second = np.round(0.6 * rng.random(200) + 0.3 * (y == 7.0), 1)  # with ties
    proba, classes = np.column_stack([1.0 - second, second]), np.array([2.0, 7.0])
    assert two_class_auc(y, proba, classes) == pytest.approx(roc_auc_score(y == 7.0, second))
    assert two_class_auc(y[y == 2.0], proba[y == 2.0], classes) is None
    assert two_class_auc(np.zeros(3), np.full((3, 3), 1 / 3), np.arange(3.0)) is None
