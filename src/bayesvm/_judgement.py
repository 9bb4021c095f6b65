"""Judging a model by rows that it has not learned from: whether it learned anything, and what it can promise.

Formulas and wording only, shared by fits, tables, the command line and the report. Every judgement is of a
:class:`LeftOut` or of the probabilities of labels: of rows left out, held out or given for calibration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from bayesvm._formatting import number, plain
from bayesvm.metrics import accepted_by_confidence

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class LeftOut(NamedTuple):
    """Predictions of rows that the model which made them has not learned from.

    Attributes
    ----------
    confidence, correct, label_proba : ndarray of shape (N,)
        Largest probability, whether it is the label's, and the probability of the label.
    weight, unit : ndarray of shape (N,)
        Weight of each row, and of one copy of it.
    """

    confidence: FloatArray
    correct: FloatArray
    label_proba: FloatArray
    weight: FloatArray
    unit: FloatArray

    @classmethod
    def of(
        cls,
        proba: FloatArray,
        label: IntArray,
        weight: FloatArray | None = None,
        unit: FloatArray | None = None,
    ) -> LeftOut:
        """Of class probabilities (N, C) and positions of the labels among the classes."""
        weight = np.ones(len(label)) if weight is None else weight
        correct = (proba.argmax(1) == label).astype(np.float64)
        own = np.maximum(proba[np.arange(len(label)), label], np.finfo(np.float64).tiny)
        return cls(proba.max(1), correct, own, weight, weight if unit is None else unit)

    @property
    def accuracy(self) -> float:
        """Weighted share of right predictions; NaN without rows."""
        return float(self.weight @ self.correct / self.weight.sum()) if len(self.weight) else math.nan

    @property
    def log_loss(self) -> float:
        """Weighted mean negative log-probability of the labels; NaN without rows."""
        return (
            float(-(self.weight @ np.log(self.label_proba)) / self.weight.sum())
            if len(self.weight)
            else math.nan
        )

    @property
    def n_rows(self) -> float:
        """Effective number of rows: as many of equal weight carry the same information (eq. 6.8)."""
        total = float(self.weight.sum())
        return total**2 / float(self.weight @ self.unit) if total else 0.0


# --- Whether probabilities are better than the class frequencies: one formula and one wording.


_STANDARD_ERRORS = 2.0
# Nats by which what is fitted to leave-one-out improves it: temperature, spread, mixing, weights of members.
_FITTED = 2


class NothingLearnedWarning(UserWarning):
    """The class probabilities are no better than the frequencies of the classes."""


class Gain(NamedTuple):
    """What probabilities gain in log-loss over the class frequencies.

    Attributes
    ----------
    log_loss, of_frequencies : float
        Of the model and of the frequencies, on the same rows.
    error : float
        Standard error of the difference, paired over rows; infinite for a single row.
    charge : float
        For what was fitted to these rows.
    """

    log_loss: float
    of_frequencies: float
    error: float
    charge: float = 0.0

    @property
    def value(self) -> float:
        """The difference less the charge; positive if the model is better."""
        return self.of_frequencies - self.log_loss - self.charge

    @property
    def is_certain(self) -> bool:
        """Whether it is more than two standard errors (eq. 6.20); False where it is unknown."""
        return self.value > _STANDARD_ERRORS * self.error

    def doubt(self, rows: str) -> str:
        """What a user should be told where it is not certain; ``rows`` says on which rows."""
        charge = f", less {number(self.charge)} for what was fitted to these rows" if self.charge else ""
        return plain(
            f"the probabilities are no better than the class frequencies, judged by {rows}: their "
            f"log-loss is {number(self.log_loss)} and that of the frequencies {number(self.of_frequencies)}"
            f"{charge}; the standard error of the difference is {number(self.error)}. The columns may be "
            "unrelated to the classes, or the rows too few"
        )


def gain_over_frequencies(
    label_proba: FloatArray,
    label: IntArray,
    mass: FloatArray,
    weight: FloatArray | None = None,
    unit: FloatArray | None = None,
    left_out: bool = False,
) -> Gain:
    """Mean gain in log-probability of the labels, with its standard error (eqs. 6.19, 6.20).

    Parameters
    ----------
    label_proba : ndarray of shape (N,)
        Probability that the model gives to the label of each row.
    label : ndarray of shape (N,)
        Positions of the labels among the classes.
    mass : ndarray of shape (C,)
        Weight that each class has in the training rows.
    weight, unit : ndarray of shape (N,) or None
        Weight of the row, and of one copy of it: so many copies are so many rows. None: ones.
    left_out : bool
        Whether these are training rows, left out one at a time.
    """
    weight = np.ones(len(label)) if weight is None else weight
    squares = weight if unit is None else unit * weight
    loss = -np.log(np.maximum(label_proba, np.finfo(np.float64).tiny))
    base = -np.log((mass[label] + 1.0) / (mass.sum() + len(mass)))
    total = float(weight.sum())
    log_loss, of_frequencies = float(weight @ loss) / total, float(weight @ base) / total
    one_row = float(squares.sum()) / total**2  # as a share of all
    deviation = base - loss - (of_frequencies - log_loss)
    variance = float(squares @ np.square(deviation)) / total**2
    error = math.sqrt(variance / (1.0 - one_row)) if one_row < 1.0 else math.inf
    return Gain(log_loss, of_frequencies, error, _FITTED * one_row if left_out else 0.0)


# --- Error rates of answered rows.


# Thresholds that are tested, and how many times the rows that a promise needs without any error a
# threshold must be expected to accept at least: with fewer, chance leaves too few one time in forty.
# The first one tested is halfway, in logarithms, from there to all rows: where it started from the least,
# one error among some thirty rows ended the search (nine made-up sets at rates of .1, .05 and .02, answered
# share over that of a threshold that knows the truth: .09 to .93 from the least, .30 to .99 from halfway).
_STEPS = 50
_LEAST = 1.5
# Products such as 20 · .55 may exceed the exact whole number by a rounding error.
_ROUNDING = 1e-9


class TooFewRowsWarning(UserWarning):
    """Too few rows for what was asked: nothing is answered, or sets hold all classes."""


def error_bound(n_wrong: float, n_rows: float, confidence: float) -> float:
    """Clopper-Pearson upper bound of an error rate after so many wrong answers (eq. 6.13)."""
    if n_wrong >= n_rows:
        return 1.0
    return float(betaincinv(n_wrong + 1.0, n_rows - n_wrong, confidence))


def smallest_rate(n_rows: float, confidence: float) -> float:
    """The bound if none of the rows is wrong: no smaller rate can be promised (eq. 6.14)."""
    return 1.0 if n_rows < 1 else -math.expm1(math.log1p(-confidence) / n_rows)


def rows_needed(max_error: float, confidence: float) -> int:
    """Rows without an error that promise the rate (eq. 6.14)."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-max_error) - _ROUNDING)


def too_few_rows(n_rows: float, max_error: float, confidence: float) -> str:
    """Why so many rows cannot promise the rate, and what they can; empty if they can."""
    needed = rows_needed(max_error, confidence)
    if n_rows >= needed * (1.0 - _ROUNDING):
        return ""
    takes = f"max_error={max_error:g} with confidence={confidence:g} takes at least {needed} rows to judge by"
    if n_rows < 1:
        return f"{takes}, and there are none, so no row is answered"
    return (
        f"{takes}, so no row is answered; the smallest rate that {n_rows:.0f} can promise is "
        f"{_rounded_up(smallest_rate(n_rows, confidence))}"
    )


def _rounded_up(rate: float) -> str:
    """Three digits of a rate, never less than it."""
    unit = 10.0 ** (math.floor(math.log10(rate)) - 2)
    return f"{min(1.0, math.ceil(rate / unit) * unit):.3g}"


def threshold_grid(placing: LeftOut, n_rows: float, needed: int) -> FloatArray:
    """Thresholds to test on ``n_rows`` rows, strictest first (eq. 6.15).

    Parameters
    ----------
    placing : LeftOut
        Rows whose confidences alone set the grid. It must not depend on the
        labels of the rows to be tested, only on their number.
    n_rows : float
        Number of rows to be tested.
    needed : int
        How many of them must be answered without an error.

    Returns
    -------
    ndarray of shape (n_thresholds,)
        Decreasing; the last is zero, which answers every row.
    """
    if not len(placing.confidence):  # leave-one-out is unavailable: all rows are answered, or none
        return np.zeros(1)
    threshold, mass, _ = accepted_by_confidence(placing.confidence, placing.weight, placing.weight)
    first = math.sqrt(min(1.0, _LEAST * needed / n_rows))
    share = np.linspace(first, 1.0, _STEPS)[:-1]
    share = share[share < 1.0]  # new rows may have lower confidences than any of these
    place = np.searchsorted(mass, share * mass[-1] * (1.0 - _ROUNDING))
    grid = threshold[np.minimum(place, len(threshold) - 1)]
    return np.append(np.unique(grid[grid > 0.0])[::-1], 0.0)


def certified_threshold(grid: FloatArray, rows: LeftOut, max_error: float, level: float) -> float:
    """Laxest threshold that passes with all stricter ones of the grid (eqs. 6.8, 6.16), or infinity.

    Parameters
    ----------
    grid : ndarray of shape (n_thresholds,)
        Decreasing, and chosen independently of the labels.
    rows : LeftOut
    max_error : float
        Error rate to keep among rows of at least that confidence.
    level : float
        Probability, over draws of the rows, with which it is kept.
    """
    confidence, mass, wrong = accepted_by_confidence(rows.confidence, rows.weight, 1.0 - rows.correct)
    squares = accepted_by_confidence(rows.confidence, rows.weight, rows.unit).hits
    passed = math.inf
    for threshold in grid:
        last = int(np.searchsorted(-confidence, -threshold, side="right")) - 1
        if last < 0:
            break
        n_rows = mass[last] ** 2 / squares[last]
        if error_bound(n_rows * wrong[last] / mass[last], n_rows, level) > max_error:
            break
        passed = float(threshold)
    return passed


def promised_threshold(placing: LeftOut, rows: LeftOut, max_error: float, level: float) -> float:
    """Confidence from which answers keep a rate, by enough rows (eqs. 6.15, 6.16); or infinity.

    Parameters
    ----------
    placing : LeftOut
        Rows that set the grid.
    rows, max_error, level : see `certified_threshold`
    """
    grid = threshold_grid(placing, rows.n_rows, rows_needed(max_error, level))
    return certified_threshold(grid, rows, max_error, level)


# --- Sets of classes.


def prediction_sets(
    proba: FloatArray, coverage: float, rows: LeftOut, fold: IntArray, by_fold: Iterable[FloatArray]
) -> BoolArray:
    """Classes that conform with the labels of rows left out, and the most probable one (eqs. 6.17, 6.18).

    Parameters
    ----------
    proba : ndarray of shape (N, C)
        Of new rows.
    coverage : float
    rows : LeftOut
    fold : ndarray of shape (M,)
        Which model has not learned from each of these rows.
    by_fold : iterable of ndarray of shape (N, C)
        Probabilities that each of these models gives to the new rows.

    Returns
    -------
    ndarray of shape (N, C)
    """
    score, beaten = 1.0 - rows.label_proba, np.zeros(proba.shape)
    for k, p in enumerate(by_fold):
        mine = np.flatnonzero(fold == k)
        mine = mine[np.argsort(score[mine], kind="stable")]
        mass = np.concatenate([[0.0], np.cumsum(rows.weight[mine])])
        beaten += mass[np.searchsorted(score[mine], (1.0 - p) - _ROUNDING)]
    sets = np.asarray(beaten < coverage * (rows.weight.sum() + 1.0) * (1.0 - _ROUNDING))
    sets[np.arange(len(proba)), proba.argmax(1)] = True
    return sets
