"""Which rows to answer so that an error rate is kept, and sets of classes that hold the label.

Formulas only: what they need to know of a model are confidences and probabilities of rows.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from bayesvm.metrics import accepted_by_confidence

FloatArray = npt.NDArray[np.floating]
BoolArray = npt.NDArray[np.bool_]

# Thresholds that are tested, and how many times the rows that a promise needs without any error a
# threshold must be expected to accept at least: with fewer, chance leaves too few one time in forty.
# The first one tested is halfway, in logarithms, from there to all rows: where it started from the least,
# one error among some thirty rows ended the search (nine made-up sets at rates of .1, .05 and .02, answered
# share over that of a threshold that knows the truth: .09 to .93 from the least, .30 to .99 from halfway).
_STEPS = 50
_LEAST = 1.5
# Products such as 20 · .55 may exceed the whole number they stand for by a rounding error.
_ROUNDING = 1e-9


class TooFewRowsWarning(UserWarning):
    """Too few rows for what was asked: nothing is answered, or sets hold all classes."""


# --- Error rates of answered rows.


def confidence_threshold(
    confidence: FloatArray, correct: FloatArray, weight: FloatArray, max_error: float
) -> float:
    """Smallest confidence at which accepted rows keep the error in leave-one-out (eq. 6.8).

    Rows are accepted from the most confident down, as long as the weighted
    error among them, counted with one error more than was seen, stays within
    ``max_error``; that extra error makes the promise hold on average for the
    next row rather than only on the rows it was read off. Infinity if not
    even the most confident rows can promise it.

    Parameters
    ----------
    confidence : ndarray of shape (N,)
        Largest leave-one-out class probability of each row.
    correct : ndarray of shape (N,)
        Whether that class is the label.
    weight : ndarray of shape (N,)
    max_error : float
    """
    threshold, mass, wrong = accepted_by_confidence(confidence, weight, 1.0 - correct)
    kept = np.flatnonzero(wrong + 1.0 <= max_error * (mass + 1.0))
    return float(threshold[kept[-1]]) if kept.size else float("inf")


def error_bound(n_wrong: float, n_rows: float, confidence: float) -> float:
    """Clopper-Pearson upper bound of an error rate after so many wrong answers (eq. 6.13)."""
    if n_wrong >= n_rows:
        return 1.0
    return float(betaincinv(n_wrong + 1.0, n_rows - n_wrong, confidence))


def smallest_rate(n_rows: int, confidence: float) -> float:
    """The bound if none of the rows is wrong: no smaller rate can be promised (eq. 6.14)."""
    return 1.0 if n_rows < 1 else -math.expm1(math.log1p(-confidence) / n_rows)


def rows_needed(max_error: float, confidence: float) -> int:
    """Rows without an error that promise the rate (eq. 6.14)."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-max_error) - _ROUNDING)


def too_few_rows(n_rows: int, max_error: float, confidence: float) -> str:
    """Why so many calibration rows cannot promise the rate, and what they can; empty if they can."""
    needed = rows_needed(max_error, confidence)
    if n_rows >= needed:
        return ""
    return (
        f"max_error={max_error:g} with confidence={confidence:g} takes at least {needed} calibration rows, "
        f"so no row is answered; the smallest rate that {n_rows} can promise is "
        f"{_rounded_up(smallest_rate(n_rows, confidence))}"
    )


def _rounded_up(rate: float) -> str:
    """Three digits of a rate, never less than it."""
    unit = 10.0 ** (math.floor(math.log10(rate)) - 2)
    return f"{min(1.0, math.ceil(rate / unit) * unit):.3g}"


def threshold_grid(confidence: FloatArray, weight: FloatArray, n_rows: int, needed: int) -> FloatArray:
    """Thresholds to test on ``n_rows`` calibration rows, strictest first (eq. 6.15).

    Parameters
    ----------
    confidence, weight : ndarray of shape (N,)
        Of training rows, left out. Calibration rows must not have a say in
        the grid: only their number does.
    n_rows : int
        Number of calibration rows.
    needed : int
        How many of them must be answered without an error.

    Returns
    -------
    ndarray of shape (n_thresholds,)
        Decreasing; the last is zero, which answers every row.
    """
    if not len(confidence):  # nothing was foretold: all rows are answered, or none
        return np.zeros(1)
    threshold, mass, _ = accepted_by_confidence(confidence, weight, weight)
    first = math.sqrt(min(1.0, _LEAST * needed / n_rows))
    share = np.linspace(first, 1.0, _STEPS)[:-1]
    share = share[share < 1.0]  # no confidence of a training row bounds those to come
    place = np.searchsorted(mass, share * mass[-1] * (1.0 - _ROUNDING))
    grid = threshold[np.minimum(place, len(threshold) - 1)]
    return np.append(np.unique(grid[grid > 0.0])[::-1], 0.0)


def certified_threshold(
    grid: FloatArray, confidence: FloatArray, correct: BoolArray, max_error: float, level: float
) -> float:
    """Laxest threshold that passes with all stricter ones of the grid (eq. 6.16); infinity if none does.

    Parameters
    ----------
    grid : ndarray of shape (n_thresholds,)
        Decreasing, and chosen without a look at the rows.
    confidence, correct : ndarray of shape (N,)
        Of calibration rows: probability of the predicted class, and whether
        it is the label.
    max_error : float
        Error rate to keep among rows of at least that confidence.
    level : float
        Probability, over draws of the rows, with which it is kept.
    """
    passed = math.inf
    for threshold in grid:
        answered = confidence >= threshold
        wrong = answered & ~correct
        if error_bound(wrong.sum(), answered.sum(), level) > max_error:
            break
        passed = float(threshold)
    return passed


def promised_threshold(
    foretold: tuple[FloatArray, FloatArray],
    confidence: FloatArray,
    correct: BoolArray,
    max_error: float,
    level: float,
) -> float:
    """Confidence from which answers keep a rate, by enough calibration rows (eqs. 6.15, 6.16); or infinity.

    Parameters
    ----------
    foretold : tuple of ndarray of shape (M,)
        Leave-one-out confidences of training rows, and their weights.
    confidence, correct, max_error, level : see `certified_threshold`
    """
    grid = threshold_grid(*foretold, len(confidence), rows_needed(max_error, level))
    return certified_threshold(grid, confidence, correct, max_error, level)


# --- Sets of classes.


def conformal_quantile(score: FloatArray, weight: FloatArray, coverage: float) -> float:
    """Score that a label exceeds with probability at most ``1 - coverage`` (eq. 6.17).

    With weights of one it is the ceil((N + 1) · coverage)-th smallest score;
    infinity if there are fewer.

    Parameters
    ----------
    score : ndarray of shape (N,)
        One minus the probability of the label of each row.
    weight : ndarray of shape (N,)
    coverage : float
    """
    order = np.argsort(score, kind="stable")
    mass = np.cumsum(weight[order])
    needed = coverage * (mass[-1] + 1.0) * (1.0 - _ROUNDING)
    place = int(np.searchsorted(mass, needed))
    return float(score[order[place]]) if place < len(order) else math.inf


def prediction_sets(proba: FloatArray, quantile: float) -> BoolArray:
    """Classes whose score stays within the quantile, and the most probable one (eq. 6.18).

    Parameters
    ----------
    proba : ndarray of shape (N, C)
    quantile : float

    Returns
    -------
    ndarray of shape (N, C)
    """
    sets = np.asarray(1.0 - proba <= quantile)
    sets[np.arange(len(proba)), proba.argmax(1)] = True
    return sets
