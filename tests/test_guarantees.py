"""Promised error rates and coverages are kept over draws of the calibration rows."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin

from bayesvm._guarantees import (
    certified_threshold,
    confidence_threshold,
    conformal_quantile,
    error_bound,
    prediction_sets,
    rows_needed,
    smallest_rate,
    threshold_grid,
)

DRAWS = 400
# What a promise that is broken in exactly a tenth of the draws exceeds one time in a thousand.
MOST_BROKEN = binom.ppf(0.999, DRAWS, 0.1)


def answers(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences, and whether the answers are right: errors are more frequent than foretold."""
    confidence = 0.5 + 0.5 * rng.beta(4, 1, n)
    return confidence, rng.random(n) >= 1.3 * (1.0 - confidence)


# Error rates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("max_error", "rows"), [(0.1, 22), (0.05, 45), (0.01, 230)])
def test_rows_that_a_rate_needs_without_an_error(max_error, rows):
    assert rows_needed(max_error, 0.9) == rows
    assert error_bound(0, rows, 0.9) <= max_error < error_bound(0, rows - 1, 0.9)
    assert smallest_rate(rows, 0.9) == pytest.approx(error_bound(0, rows, 0.9))


@pytest.mark.parametrize(("wrong", "n"), [(0, 1), (0, 30), (1, 30), (7, 30), (29, 30)])
def test_bound_is_the_rate_at_which_so_few_errors_become_improbable(wrong, n):
    assert binom.cdf(wrong, n, error_bound(wrong, n, 0.9)) == pytest.approx(0.1)


def test_bound_where_nothing_is_known():
    assert error_bound(0, 0, 0.9) == error_bound(5, 5, 0.9) == smallest_rate(0, 0.9) == 1.0


def test_grid_goes_from_halfway_to_the_rows_needed_to_all():
    left_out = np.linspace(0.0005, 0.9995, 1000)
    grid = threshold_grid(left_out, np.ones(1000), 300, 45)
    assert len(grid) == 50
    assert (np.diff(grid) < 0).all()
    assert (left_out >= grid[0]).sum() == pytest.approx(1000 * (1.5 * 45 / 300) ** 0.5, abs=1)
    assert grid[-1] == 0.0
    assert threshold_grid(left_out, np.ones(1000), 60, 45).tolist() == [0.0]


def test_weights_stand_for_copies_in_the_grid():
    left_out, weight = np.array([0.5, 0.7, 0.9]), np.array([3.0, 1.0, 2.0])
    whole = threshold_grid(np.repeat(left_out, [3, 1, 2]), np.ones(6), 400, 22)
    np.testing.assert_array_equal(threshold_grid(left_out, weight, 400, 22), whole)
    np.testing.assert_array_equal(whole, [0.9, 0.7, 0.5, 0.0])


def test_rule_stops_at_the_first_threshold_that_fails():
    confidence = np.repeat([0.9, 0.8, 0.7], [30, 5, 500])
    correct = np.repeat([True, False, True], [30, 5, 500])
    grid = np.array([0.9, 0.8, 0.7, 0.0])
    # All 535 rows would pass, but the five wrong ones come first.
    assert error_bound(5, 535, 0.9) < 0.1 < error_bound(5, 35, 0.9)
    assert certified_threshold(grid, confidence, correct, 0.1, 0.9) == 0.9
    assert certified_threshold(grid[2:], confidence, correct, 0.1, 0.9) == 0.0


def test_ties_stand_or_fall_together():
    confidence, correct = np.full(60, 0.8), np.arange(60) > 0
    assert certified_threshold(np.array([0.8, 0.0]), confidence, correct, 0.1, 0.9) == 0.0
    assert certified_threshold(np.array([0.8, 0.0]), confidence, correct, 0.05, 0.9) == np.inf
    assert certified_threshold(np.array([0.9, 0.8]), confidence, correct, 0.1, 0.9) == np.inf  # no row at .9


def test_nothing_is_answered_if_all_are_wrong():
    grid = threshold_grid(np.linspace(0.5, 1, 50), np.ones(50), 1000, 2)
    assert certified_threshold(grid, np.linspace(0.5, 1, 1000), np.zeros(1000, bool), 0.9, 0.9) == np.inf


@pytest.mark.parametrize(("max_error", "n"), [(0.1, 100), (0.1, 300), (0.05, 300), (0.05, 1000)])
def test_error_rate_is_exceeded_in_a_tenth_of_the_draws_at_most(max_error, n):
    """And where the answers allow it, some are given."""
    confidence, correct = answers(np.random.default_rng(1), 200_000)
    order = np.argsort(-confidence)
    error = np.cumsum(~correct[order]) / np.arange(1, len(order) + 1)
    broken = answered = 0
    for draw in range(DRAWS):
        rng = np.random.default_rng([draw, n])
        grid = threshold_grid(answers(rng, 200)[0], np.ones(200), n, rows_needed(max_error, 0.9))
        threshold = certified_threshold(grid, *answers(rng, n), max_error, 0.9)
        accepted = np.searchsorted(-confidence[order], -threshold, side="right")
        broken += accepted > 0 and error[accepted - 1] > max_error
        answered += accepted
    assert broken <= MOST_BROKEN
    assert answered > 0


def test_leave_one_out_rule_keeps_the_rate_on_average_only():
    """Without calibration rows the rate is exceeded in some four of ten draws, and docs say so."""
    confidence, correct = answers(np.random.default_rng(1), 200_000)
    broken = 0
    for draw in range(DRAWS):
        left_out, right = answers(np.random.default_rng(draw), 300)
        threshold = confidence_threshold(left_out, right.astype(float), np.ones(300), 0.1)
        accepted = confidence >= threshold
        broken += accepted.any() and (~correct[accepted]).mean() > 0.1
    assert 0.3 * DRAWS < broken < 0.5 * DRAWS


def test_worst_case_keeps_the_promise_and_a_grid_from_the_calibration_rows_breaks_it():
    """Every threshold has an error rate just above the promised one: any answer is a broken promise."""
    broken = shopped = 0
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        left_out, confidence = rng.random(200), rng.random(200)
        correct = rng.random(200) >= 0.0501
        grid = threshold_grid(left_out, np.ones(200), 200, 45)
        broken += certified_threshold(grid, confidence, correct, 0.05, 0.9) < np.inf
        # Any of the calibration rows' own confidences at which the bound holds.
        shopped += any(
            certified_threshold(np.array([c]), confidence, correct, 0.05, 0.9) < np.inf
            for c in np.unique(confidence)
        )
    assert broken <= MOST_BROKEN
    assert shopped > 0.2 * DRAWS


# Sets -----------------------------------------------------------------------------------------


def probabilities(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels of four classes, and probabilities that are far too sure of themselves."""
    latent = rng.normal(size=(n, 4))
    true = np.exp(latent) / np.exp(latent).sum(1, keepdims=True)
    y = (rng.random((n, 1)) > true.cumsum(1)).sum(1).clip(0, 3)
    sure = np.exp(4 * latent)
    return sure / sure.sum(1, keepdims=True), y


def scores(proba: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 1.0 - proba[np.arange(len(y)), y]


def brute_force(score: np.ndarray, coverage: float) -> float:
    rank = int(np.ceil(round((len(score) + 1) * coverage, 9)))
    return np.sort(score)[rank - 1] if rank <= len(score) else np.inf


@pytest.mark.parametrize("coverage", [0.05, 0.5, 0.55, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [1, 9, 10, 19, 20, 99, 1000])
def test_quantile_against_brute_force(n, coverage):
    score = np.random.default_rng(n).random(n).round(2)  # with ties
    assert conformal_quantile(score, np.ones(n), coverage) == brute_force(score, coverage)


def test_weights_stand_for_copies_in_the_quantile():
    score, copies = np.array([0.3, 0.1, 0.2]), np.array([4, 10, 6])
    for coverage in (0.1, 0.5, 0.6, 0.8, 0.9):
        whole = conformal_quantile(np.repeat(score, copies), np.ones(20), coverage)
        assert conformal_quantile(score, copies.astype(float), coverage) == whole


def test_sets_hold_the_most_probable_class_and_all_if_nothing_is_known():
    proba = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    assert prediction_sets(proba, 0.1).tolist() == [[True, False, False], [False, False, True]]
    assert prediction_sets(proba, 0.75).tolist() == [[True, True, False], [False, False, True]]
    assert prediction_sets(proba, np.inf).all()


@pytest.mark.parametrize(("n", "coverage"), [(30, 0.8), (100, 0.9), (300, 0.95)])
def test_coverage_is_at_least_nominal(n, coverage):
    rng = np.random.default_rng(n)
    covered = []
    for _ in range(DRAWS):
        quantile = conformal_quantile(scores(*probabilities(rng, n)), np.ones(n), coverage)
        proba, y = probabilities(rng, 200)
        covered.append(prediction_sets(proba, quantile)[np.arange(200), y].mean())
    assert np.mean(covered) > coverage - 3 * np.std(covered) / np.sqrt(DRAWS)
    assert np.mean(covered) < coverage + 1 / (n + 1) + 0.02


class Given(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose rows are the class probabilities themselves."""

    def fit(self, X, y):
        self.classes_ = np.arange(4)
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(1)


@pytest.mark.filterwarnings("ignore")  # what MAPIE warns of is its own affair
@pytest.mark.parametrize("coverage", [0.3, 0.8, 0.95])
def test_sets_are_those_of_mapie(coverage):
    """Where it gives an empty set, ours holds the most probable class."""
    classification = pytest.importorskip("mapie.classification")
    rng = np.random.default_rng(0)
    (held, y), (new, _) = probabilities(rng, 150), probabilities(rng, 500)
    referee = classification.SplitConformalClassifier(
        Given().fit(held, y), confidence_level=coverage, conformity_score="lac", prefit=True
    ).conformalize(held, y)
    theirs = referee.predict_set(new)[1][:, :, 0]
    ours = prediction_sets(new, conformal_quantile(scores(held, y), np.ones(150), coverage))
    empty = ~theirs.any(1)
    assert empty.any() == (coverage == 0.3)
    np.testing.assert_array_equal(ours[~empty], theirs[~empty])
    np.testing.assert_array_equal(ours[empty].argmax(1), new[empty].argmax(1))
    assert (ours[empty].sum(1) == 1).all()
