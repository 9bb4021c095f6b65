"""Promised error rates and coverages are kept over draws of the calibration rows."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from bayesvm._judgement import (
    LeftOut,
    certified_threshold,
    error_bound,
    prediction_sets,
    promised_threshold,
    rows_needed,
    smallest_rate,
    threshold_grid,
)

DRAWS = 400
# What a promise that is broken in exactly a tenth of the draws exceeds one time in a thousand.
MOST_BROKEN = binom.ppf(0.999, DRAWS, 0.1)


def judged(confidence, correct=1.0, weight=1.0, unit=1.0) -> LeftOut:
    n = len(confidence)
    return LeftOut(*(np.broadcast_to(a, n).astype(float) for a in (confidence, correct, 1.0, weight, unit)))


def answers(rng: np.random.Generator, n: int) -> LeftOut:
    """Confidences, and whether the answers are right: errors are more frequent than foretold."""
    confidence = 0.5 + 0.5 * rng.beta(4, 1, n)
    return judged(confidence, rng.random(n) >= 1.3 * (1.0 - confidence))


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
    grid = threshold_grid(judged(left_out), 300, 45)
    assert len(grid) == 50
    assert (np.diff(grid) < 0).all()
    assert (left_out >= grid[0]).sum() == pytest.approx(1000 * (1.5 * 45 / 300) ** 0.5, abs=1)
    assert grid[-1] == 0.0
    assert threshold_grid(judged(left_out), 60, 45).tolist() == [0.0]


def test_weights_stand_for_copies_in_the_grid():
    left_out, weight = np.array([0.5, 0.7, 0.9]), np.array([3.0, 1.0, 2.0])
    whole = threshold_grid(judged(np.repeat(left_out, [3, 1, 2])), 400, 22)
    np.testing.assert_array_equal(threshold_grid(judged(left_out, weight=weight), 400, 22), whole)
    np.testing.assert_array_equal(whole, [0.9, 0.7, 0.5, 0.0])


def test_rule_stops_at_the_first_threshold_that_fails():
    confidence = np.repeat([0.9, 0.8, 0.7], [30, 5, 500])
    correct = np.repeat([True, False, True], [30, 5, 500])
    grid, rows = np.array([0.9, 0.8, 0.7, 0.0]), judged(confidence, correct)
    # All 535 rows would pass, but the five wrong ones come first.
    assert error_bound(5, 535, 0.9) < 0.1 < error_bound(5, 35, 0.9)
    assert certified_threshold(grid, rows, 0.1, 0.9) == 0.9
    assert certified_threshold(grid[2:], rows, 0.1, 0.9) == 0.0


def test_ties_stand_or_fall_together():
    rows = judged(np.full(60, 0.8), np.arange(60) > 0)
    assert certified_threshold(np.array([0.8, 0.0]), rows, 0.1, 0.9) == 0.0
    assert certified_threshold(np.array([0.8, 0.0]), rows, 0.05, 0.9) == np.inf
    assert certified_threshold(np.array([0.9, 0.8]), rows, 0.1, 0.9) == np.inf  # no row at .9


def test_nothing_is_answered_if_all_are_wrong():
    grid = threshold_grid(judged(np.linspace(0.5, 1, 50)), 1000, 2)
    assert certified_threshold(grid, judged(np.linspace(0.5, 1, 1000), 0.0), 0.9, 0.9) == np.inf


def test_copies_are_rows_and_weights_in_other_units_change_nothing():
    """A row with so many copies is so many rows; one of much weight is one."""
    rng = np.random.default_rng(3)
    confidence, correct, copies = rng.random(40), rng.random(40) > 0.1, rng.integers(1, 6, 40)
    apart = judged(np.repeat(confidence, copies), np.repeat(correct, copies))
    together = judged(confidence, correct, copies)
    assert together.n_rows == pytest.approx(apart.n_rows) == pytest.approx(copies.sum())
    assert (together.accuracy, together.log_loss) == pytest.approx((apart.accuracy, apart.log_loss))
    grid = np.sort(confidence)[::-1]
    for rate in (0.1, 0.2, 0.3):
        threshold = certified_threshold(grid, apart, rate, 0.9)
        assert certified_threshold(grid, together, rate, 0.9) == threshold
        units = judged(confidence, correct, 7.0 * copies, 7.0)
        assert certified_threshold(grid, units, rate, 0.9) == threshold
    assert judged(confidence, correct, copies, copies).n_rows < 40


@pytest.mark.parametrize(("max_error", "n"), [(0.1, 100), (0.1, 300), (0.05, 300), (0.05, 1000)])
def test_error_rate_is_exceeded_in_a_tenth_of_the_draws_at_most(max_error, n):
    """And where the answers allow it, some are given."""
    new = answers(np.random.default_rng(1), 200_000)
    order = np.argsort(-new.confidence)
    error = np.cumsum(1.0 - new.correct[order]) / np.arange(1, len(order) + 1)
    broken = answered = 0
    for draw in range(DRAWS):
        rng = np.random.default_rng([draw, n])
        grid = threshold_grid(answers(rng, 200), n, rows_needed(max_error, 0.9))
        threshold = certified_threshold(grid, answers(rng, n), max_error, 0.9)
        accepted = np.searchsorted(-new.confidence[order], -threshold, side="right")
        broken += accepted > 0 and error[accepted - 1] > max_error
        answered += accepted
    assert broken <= MOST_BROKEN
    assert answered > 0


def test_a_grid_from_the_confidences_of_the_rows_themselves_keeps_the_rate():
    """Without calibration rows rows left out place the thresholds too, though not by their labels."""
    new = answers(np.random.default_rng(1), 200_000)
    broken = 0
    for draw in range(DRAWS):
        rows = answers(np.random.default_rng(draw), 300)
        accepted = new.confidence >= promised_threshold(rows, rows, 0.1, 0.9)
        broken += accepted.any() and 1.0 - new.correct[accepted].mean() > 0.1
    assert broken <= MOST_BROKEN


def test_worst_case_keeps_the_promise_and_a_grid_from_the_calibration_rows_breaks_it():
    """Every threshold has an error rate just above the promised one: any answer is a broken promise."""
    broken = shopped = 0
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        left_out, confidence = rng.random(200), rng.random(200)
        correct = rng.random(200) >= 0.0501
        rows = judged(confidence, correct)
        grid = threshold_grid(judged(left_out), 200, 45)
        broken += certified_threshold(grid, rows, 0.05, 0.9) < np.inf
        # Any of the calibration rows' own confidences at which the bound holds.
        shopped += any(
            certified_threshold(np.array([c]), rows, 0.05, 0.9) < np.inf for c in np.unique(confidence)
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


def with_scores(score: np.ndarray, weight: np.ndarray | None = None) -> LeftOut:
    """Rows whose labels have these scores."""
    return LeftOut.of(np.stack([1.0 - score, score], 1), np.zeros(len(score), dtype=int), weight)


def split_sets(proba: np.ndarray, coverage: float, rows: LeftOut) -> np.ndarray:
    """By rows that one model has not seen."""
    return prediction_sets(proba, coverage, rows, np.zeros(len(rows.weight), dtype=int), [proba])


def brute_force(score: np.ndarray, coverage: float) -> float:
    rank = int(np.ceil(round((len(score) + 1) * coverage, 9)))
    return np.sort(score)[rank - 1] if rank <= len(score) else np.inf


@pytest.mark.parametrize("coverage", [0.05, 0.5, 0.55, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [1, 9, 10, 19, 20, 99, 1000])
def test_sets_hold_what_the_quantile_of_the_scores_allows(n, coverage):
    rng = np.random.default_rng(n)
    score, proba = rng.random(n).round(2), rng.dirichlet(np.ones(4), 50).round(2)  # with ties
    sets = split_sets(proba, coverage, with_scores(score))
    allowed = 1.0 - proba <= brute_force(score, coverage) + 1e-12
    others = np.arange(4) != proba.argmax(1)[:, None]
    np.testing.assert_array_equal(sets[others], allowed[others])


def test_weights_stand_for_copies_in_the_sets():
    score, copies = np.array([0.3, 0.1, 0.2]), np.array([4, 10, 6])
    proba = np.random.default_rng(0).dirichlet(np.full(3, 0.3), 200)
    for coverage in (0.1, 0.5, 0.6, 0.8, 0.9):
        whole = split_sets(proba, coverage, with_scores(np.repeat(score, copies)))
        np.testing.assert_array_equal(
            split_sets(proba, coverage, with_scores(score, copies.astype(float))), whole
        )


def test_sets_hold_the_most_probable_class_and_all_if_nothing_is_known():
    proba = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    sure, unsure = with_scores(np.zeros(20)), with_scores(np.full(20, 0.75))
    assert split_sets(proba, 0.9, sure).tolist() == [[True, False, False], [False, False, True]]
    assert split_sets(proba, 0.9, unsure).tolist() == [[True, True, False], [False, False, True]]
    assert split_sets(proba, 0.99, sure).all()


def test_sets_of_several_models_against_brute_force():
    """A class stays while the rows whose scores it exceeds, each by the model without that row, are few."""
    rng = np.random.default_rng(5)
    rows, fold = LeftOut.of(rng.dirichlet(np.ones(3), 40), rng.integers(3, size=40)), rng.integers(4, size=40)
    proba, by_fold = rng.dirichlet(np.ones(3), 30), rng.dirichlet(np.ones(3), (4, 30))
    sets = prediction_sets(proba, 0.8, rows, fold, by_fold)
    for x in range(30):
        for y in range(3):
            beaten = sum(1 - rows.label_proba[n] < 1 - by_fold[fold[n], x, y] for n in range(40))
            assert sets[x, y] == (beaten < 0.8 * 41 or y == proba[x].argmax())


@pytest.mark.parametrize(("n", "coverage"), [(30, 0.8), (100, 0.9), (300, 0.95)])
def test_coverage_is_at_least_nominal(n, coverage):
    rng = np.random.default_rng(n)
    covered = []
    for _ in range(DRAWS):
        rows = LeftOut.of(*probabilities(rng, n))
        proba, y = probabilities(rng, 200)
        covered.append(split_sets(proba, coverage, rows)[np.arange(200), y].mean())
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
    ours = split_sets(new, coverage, LeftOut.of(held, y))
    empty = ~theirs.any(1)
    assert empty.any() == (coverage == 0.3)
    np.testing.assert_array_equal(ours[~empty], theirs[~empty])
    np.testing.assert_array_equal(ours[empty].argmax(1), new[empty].argmax(1))
    assert (ours[empty].sum(1) == 1).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_sets_of_several_models_are_those_of_mapie(coverage):
    classification = pytest.importorskip("mapie.classification")
    X, y = make_classification(160, 5, n_informative=3, n_redundant=0, n_classes=3, random_state=0)
    X, new, y = X[:120], X[120:], y[:120]
    folds = KFold(5)
    referee = classification.CrossConformalClassifier(
        LogisticRegression(), confidence_level=coverage, conformity_score="lac", cv=folds
    ).fit_conformalize(X, y)
    theirs = referee.predict_set(new, agg_scores="crossval")[1][:, :, 0]
    fold, left, by_fold = np.empty(120, dtype=int), np.empty((120, 3)), []
    for k, (train, test) in enumerate(folds.split(X)):
        model = LogisticRegression().fit(X[train], y[train])
        fold[test], left[test] = k, model.predict_proba(X[test])
        by_fold.append(model.predict_proba(new))
    ours = prediction_sets(np.mean(by_fold, 0), coverage, LeftOut.of(left, y), fold, by_fold)
    filled = theirs.any(1)
    assert filled.any()
    np.testing.assert_array_equal(ours[filled], theirs[filled])
