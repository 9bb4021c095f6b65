r"""How far class probabilities can be trusted: calibration, and accuracy against coverage.

All functions look at the *top class* of each row: its probability is the
confidence, and whether it is the label says if the row was predicted
correctly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

__all__ = [
    "AccuracyCoverageCurve",
    "ReliabilityCurve",
    "accuracy_coverage_curve",
    "expected_calibration_error",
    "reliability_curve",
    "top_class",
    "wilson_interval",
]

FloatArray = npt.NDArray[np.floating]


class ReliabilityCurve(NamedTuple):
    """Confidence and accuracy in bins of equal width; NaN where a bin is empty.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Bin b holds the confidences in (edges[b], edges[b + 1]].
    counts : ndarray of shape (n_bins,)
        Rows in each bin, or their total weight.
    confidence, accuracy : ndarray of shape (n_bins,)
        Means over the rows of the bin.
    low, high : ndarray of shape (n_bins,)
        Binomial (Wilson) interval of the accuracy.
    """

    edges: FloatArray
    counts: FloatArray
    confidence: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray


class AccuracyCoverageCurve(NamedTuple):
    """Accuracy among the most confident rows, one entry per distinct confidence.

    Attributes
    ----------
    coverage : ndarray of shape (n_thresholds,)
        Share of rows accepted, increasing up to one.
    accuracy : ndarray of shape (n_thresholds,)
        Accuracy among the accepted rows.
    threshold : ndarray of shape (n_thresholds,)
        Least confidence that is accepted, decreasing.
    """

    coverage: FloatArray
    accuracy: FloatArray
    threshold: FloatArray


def top_class(y_true: Any, y_proba: Any, labels: Any = None) -> tuple[FloatArray, FloatArray]:
    """Whether the most probable class is the label, and its probability.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Class labels.
    y_proba : array-like of shape (n_rows, n_classes)
        Class probabilities, as ``predict_proba`` returns them.
    labels : array-like of shape (n_classes,) or None
        The class of each column, such as ``classes_`` of the classifier.
        None: the sorted labels of ``y_true``, if all classes occur there.

    Returns
    -------
    correct, confidence : ndarray of shape (n_rows,)
        ``correct`` holds zeros and ones.

    Examples
    --------
    >>> correct, confidence = top_class(["cat", "dog"], [[0.9, 0.1], [0.6, 0.4]])
    >>> correct.tolist(), confidence.tolist()
    ([1.0, 0.0], [0.9, 0.6])
    """
    y = np.asarray(y_true)
    proba = np.asarray(y_proba, dtype=np.float64)
    if proba.ndim != 2:
        raise ValueError(f"y_proba must have shape (n_rows, n_classes); got {proba.ndim} dimension(s)")
    if y.shape != (proba.shape[0],):
        raise ValueError(f"y_true has shape {y.shape}, but y_proba has {proba.shape[0]} rows")
    if proba.shape[0] == 0:
        raise ValueError("there are no rows to judge")
    if not ((proba >= 0.0) & (proba <= 1.0 + 1e-9)).all():
        raise ValueError("y_proba must hold probabilities between 0 and 1")
    classes = np.unique(y) if labels is None else np.asarray(labels)
    if classes.shape != (proba.shape[1],):
        raise ValueError(
            f"y_proba has {proba.shape[1]} columns for {classes.size} classes; "
            "give labels=, the class of each column"
        )
    if labels is not None and not np.isin(y, classes).all():
        unknown = np.unique(y[~np.isin(y, classes)]).tolist()
        raise ValueError(f"y_true holds the labels {unknown[:5]}, which labels={classes.tolist()[:10]} lacks")
    correct = (classes[proba.argmax(1)] == y).astype(np.float64)
    return correct, proba.max(1)


def wilson_interval(successes: Any, count: Any, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    r"""Binomial confidence interval of a share, never outside [0, 1].

    With :math:`\hat p = s/n` and the normal quantile z,

    .. math:: \frac{\hat p + z^2/2n \pm z\sqrt{\hat p(1-\hat p)/n + z^2/4n^2}}{1 + z^2/n}.

    Parameters
    ----------
    successes, count : array-like of shape (n,)
        Weights need not be whole numbers; NaN where the count is zero.
    level : float
        Coverage of the interval.

    Examples
    --------
    >>> low, high = wilson_interval([9.0], [10.0])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.596], [0.982])
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r} is not valid; it must lie between 0 and 1")
    count = np.asarray(count, dtype=np.float64)
    n = np.where(count > 0, count, np.nan)
    p = np.asarray(successes, dtype=np.float64) / n
    z = float(ndtri(0.5 + 0.5 * level))
    centre = p + z**2 / (2 * n)
    half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    return np.clip((centre - half) / scale, 0.0, 1.0), np.clip((centre + half) / scale, 0.0, 1.0)


def reliability_curve(
    y_true: Any,
    y_proba: Any,
    *,
    labels: Any = None,
    n_bins: int = 10,
    level: float = 0.95,
    sample_weight: Any = None,
) -> ReliabilityCurve:
    """Accuracy as a function of the confidence in the top class.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    y_proba : array-like of shape (n_rows, n_classes)
    labels : array-like of shape (n_classes,) or None
        The class of each column; None: the sorted labels of ``y_true``.
    n_bins : int
        Bins of equal width between 0 and 1.
    level : float
        Coverage of the binomial intervals.
    sample_weight : array-like of shape (n_rows,) or None

    Returns
    -------
    ReliabilityCurve

    Examples
    --------
    >>> proba = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.45, 0.55]]
    >>> curve = reliability_curve([0, 0, 1, 0], proba, n_bins=4)
    >>> curve.counts.tolist()
    [0.0, 0.0, 2.0, 2.0]
    >>> curve.confidence.round(3).tolist(), curve.accuracy.tolist()
    ([nan, nan, 0.625, 0.85], [nan, nan, 0.5, 1.0])
    """
    if n_bins < 1:
        raise ValueError(f"n_bins={n_bins!r} is not valid; it must be a whole number >= 1")
    correct, confidence = top_class(y_true, y_proba, labels)
    weight = _weights(sample_weight, correct.shape[0])
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    # The number of inner edges below a confidence is its bin (left, right].
    bin_of = np.searchsorted(edges[1:-1], confidence, side="left")
    count: FloatArray = np.bincount(bin_of, weights=weight, minlength=n_bins).astype(np.float64)
    n = np.where(count > 0, count, np.nan)
    hits = np.bincount(bin_of, weights=weight * correct, minlength=n_bins)
    mean = np.bincount(bin_of, weights=weight * confidence, minlength=n_bins) / n
    low, high = wilson_interval(hits, count, level)
    return ReliabilityCurve(edges, count, mean, hits / n, low, high)


def expected_calibration_error(
    y_true: Any, y_proba: Any, *, labels: Any = None, n_bins: int = 10, sample_weight: Any = None
) -> float:
    r"""Mean gap between confidence and accuracy over bins of the confidence.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{N}\,
       \bigl|\mathrm{accuracy}_b - \mathrm{confidence}_b\bigr|

    Zero for calibrated probabilities and infinitely many rows; with few rows
    chance alone makes it positive.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    y_proba : array-like of shape (n_rows, n_classes)
    labels : array-like of shape (n_classes,) or None
        The class of each column; None: the sorted labels of ``y_true``.
    n_bins : int
        Bins of equal width between 0 and 1.
    sample_weight : array-like of shape (n_rows,) or None

    Examples
    --------
    Four answers with confidence 0.8, of which three are right:

    >>> proba = [[0.8, 0.2]] * 4
    >>> round(expected_calibration_error([0, 0, 0, 1], proba), 3)
    0.05
    """
    curve = reliability_curve(y_true, y_proba, labels=labels, n_bins=n_bins, sample_weight=sample_weight)
    return calibration_gap(curve)


def calibration_gap(curve: ReliabilityCurve) -> float:
    """The expected calibration error of a reliability curve."""
    gap = np.abs(curve.accuracy - curve.confidence)
    return float(np.nansum(curve.counts * gap) / curve.counts.sum())


def accuracy_coverage_curve(
    y_true: Any, y_proba: Any, *, labels: Any = None, sample_weight: Any = None
) -> AccuracyCoverageCurve:
    """Accuracy among the rows whose confidence reaches a threshold, for every threshold.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    y_proba : array-like of shape (n_rows, n_classes)
    labels : array-like of shape (n_classes,) or None
        The class of each column; None: the sorted labels of ``y_true``.
    sample_weight : array-like of shape (n_rows,) or None

    Returns
    -------
    AccuracyCoverageCurve

    Examples
    --------
    The least confident of four answers is wrong:

    >>> proba = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.45, 0.55]]
    >>> curve = accuracy_coverage_curve([0, 0, 1, 0], proba)
    >>> curve.coverage.tolist(), curve.accuracy.tolist()
    ([0.25, 0.5, 0.75, 1.0], [1.0, 1.0, 1.0, 0.75])
    """
    correct, confidence = top_class(y_true, y_proba, labels)
    weight = _weights(sample_weight, correct.shape[0])
    accepted = accepted_by_confidence(confidence, weight, correct)
    threshold, mass, hits = (column[accepted.mass > 0] for column in accepted)
    return AccuracyCoverageCurve(mass / mass[-1], hits / mass, threshold)


class Accepted(NamedTuple):
    """Weight and hits accepted by every threshold on the confidence, from the highest down.

    Attributes
    ----------
    threshold : ndarray of shape (n_thresholds,)
        The distinct confidences.
    mass, hits : ndarray of shape (n_thresholds,)
        Weight of the rows that have at least that confidence, and of those among them that are counted.
    """

    threshold: FloatArray
    mass: FloatArray
    hits: FloatArray


def accepted_by_confidence(confidence: FloatArray, weight: FloatArray, counted: FloatArray) -> Accepted:
    """Weights of accepted rows at every threshold; ``counted`` says which of them to count besides."""
    order = np.argsort(-confidence, kind="stable")
    confidence, weight = confidence[order], weight[order]
    # A threshold accepts all rows that share its confidence.
    last_of_ties = np.append(confidence[1:] < confidence[:-1], True)[: len(confidence)]
    mass, hits = np.cumsum(weight), np.cumsum(weight * counted[order])
    return Accepted(confidence[last_of_ties], mass[last_of_ties], hits[last_of_ties])


def log_probability(proba: FloatArray) -> FloatArray:
    """Logarithms of probabilities, finite even where those vanish."""
    return np.asarray(np.log(np.maximum(proba, np.finfo(np.float64).tiny)))


def _weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """Weights as floats; ones if there are none."""
    if sample_weight is None:
        return np.ones(n_rows)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weight.shape}, but there are {n_rows} rows")
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ValueError("sample_weight must hold non-negative finite numbers, not all of them zero")
    return weight
