"""Scores as sums that add up over folds, ranks and tests of models over sets, and which results count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import friedmanchisquare, rankdata, studentized_range, wilcoxon

from bayesvm.metrics import ReliabilityCurve, wilson_interval
from bayesvm_studies.results import Result

N_BINS = 15
FloatArray = npt.NDArray[np.floating]


def score_sums(y: npt.NDArray[Any], proba: FloatArray, classes: npt.NDArray[Any]) -> dict[str, Any]:
    """Sums of a fold that :class:`Result` keeps.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels, all among the classes.
    proba : ndarray of shape (n_rows, n_classes)
        Rows are made to sum to one: quadrature and single precision leave some that do not quite.
    classes : ndarray of shape (n_classes,)
        All classes of the set, sorted.
    """
    proba = np.asarray(proba, dtype=np.float64)
    if proba.shape != (len(y), len(classes)):
        raise ValueError(f"probabilities of shape {proba.shape} for {len(y)} rows and {len(classes)} classes")
    if not np.isfinite(proba).all() or (proba < 0).any():
        raise ValueError("probabilities that are negative or not finite")
    total = proba.sum(1, keepdims=True)
    if (np.abs(total - 1.0) > 0.01).any():
        raise ValueError(f"probabilities that sum to {total.min():.3g} ... {total.max():.3g}")
    proba = proba / total
    label = np.searchsorted(classes, y)
    of_label = proba[np.arange(len(y)), label]
    # As in scikit-learn: a true class that was given no probability at all costs 36 nats.
    log_loss = -np.log(np.maximum(of_label, np.finfo(np.float64).eps))
    brier = (proba**2).sum(1) - 2.0 * of_label + 1.0
    right, confidence = proba.argmax(1) == label, proba.max(1)
    edges = np.linspace(0.0, 1.0, N_BINS + 1)
    bin_of = np.searchsorted(edges[1:-1], confidence, side="left")
    counts = np.bincount(bin_of, minlength=N_BINS)
    hits = np.bincount(bin_of, weights=right, minlength=N_BINS)
    sums = np.bincount(bin_of, weights=confidence, minlength=N_BINS)
    return {
        "n_test": len(y),
        "correct": int(right.sum()),
        "log_loss_sum": float(log_loss.sum()),
        "brier_sum": float(brier.sum()),
        "bins": [[int(b), int(counts[b]), int(hits[b]), float(sums[b])] for b in np.flatnonzero(counts)],
    }


def two_class_auc(y: npt.NDArray[Any], proba: FloatArray, classes: npt.NDArray[Any]) -> float | None:
    """Area under the ROC curve of the second of two classes; None of more, or if one has no row.

    It is the share of pairs of rows, one of each class, that are in the right order; ties count a half.

    Examples
    --------
    >>> proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    >>> two_class_auc(np.array([3.0, 3.0, 5.0]), proba, np.array([3.0, 5.0]))
    0.75
    """
    second = y == classes[-1]
    n = int(second.sum())
    if len(classes) != 2 or n in (0, len(y)):
        return None
    ranks = rankdata(proba[:, 1])
    return float((ranks[second].sum() - n * (n + 1) / 2) / (n * (len(y) - n)))


@dataclass(frozen=True)
class Pooled:
    """Scores over the test rows of several folds together.

    Attributes
    ----------
    n_rows : int
    accuracy, log_loss, brier, ece : float
    bins : ndarray of shape (15, 3)
        Rows, right answers and sum of confidences of each bin.
    """

    n_rows: int
    accuracy: float
    log_loss: float
    brier: float
    bins: FloatArray

    @property
    def ece(self) -> float:
        """Expected calibration error with 15 bins of equal width."""
        return float(np.abs(self.bins[:, 1] - self.bins[:, 2]).sum() / self.n_rows)

    def curve(self) -> ReliabilityCurve:
        """Accuracy against confidence."""
        return reliability(self.bins)


def pool(results: Iterable[Result]) -> Pooled:
    """Pool folds that have scores."""
    folds = list(results)
    if not folds or not all(fold.ok for fold in folds):
        raise ValueError("only folds with scores can be pooled, and at least one")
    n_rows = sum(fold.n_test for fold in folds)
    return Pooled(
        n_rows=n_rows,
        accuracy=sum(fold.correct for fold in folds) / n_rows,
        log_loss=sum(fold.log_loss_sum for fold in folds) / n_rows,
        brier=sum(fold.brier_sum for fold in folds) / n_rows,
        bins=_add_bins([fold.bins for fold in folds]),
    )


def _add_bins(folds: Sequence[list[list[float]]]) -> FloatArray:
    bins = np.zeros((N_BINS, 3))
    for fold in folds:
        for b, *sums in fold:
            bins[int(b)] += sums
    return bins


def reliability(bins: FloatArray) -> ReliabilityCurve:
    """A reliability curve from rows, right answers and sums of confidences per bin."""
    count = bins[:, 0]
    n = np.where(count > 0, count, np.nan)
    low, high = wilson_interval(bins[:, 1], count)
    edges = np.linspace(0.0, 1.0, N_BINS + 1)
    return ReliabilityCurve(edges, count, bins[:, 2] / n, bins[:, 1] / n, low, high)


def rank_rows(scores: Any) -> FloatArray:
    """Ranks within each row, 1 for the lowest score; ties share their mean, NaN is worse than anything.

    Parameters
    ----------
    scores : array-like of shape (n_sets, n_models)
        Lower is better; NaN where a model has no score.

    Examples
    --------
    >>> rank_rows([[0.1, 0.3, 0.1], [0.2, np.nan, np.nan]]).tolist()
    [[1.5, 3.0, 1.5], [1.0, 2.5, 2.5]]
    """
    scores = np.asarray(scores, dtype=np.float64)
    return np.asarray(rankdata(np.where(np.isnan(scores), np.inf, scores), axis=1))


class Comparison(NamedTuple):
    """Models compared over sets.

    Attributes
    ----------
    models : list of str
    mean_rank : ndarray of shape (n_models,)
    n_sets : int
    p_value : float
        Friedman's test that all models are equally good; NaN if there are
        fewer than three models or two sets.
    critical_difference : float
        Mean ranks that differ by more are told apart at the level .05 (Nemenyi).
    """

    models: list[str]
    mean_rank: FloatArray
    n_sets: int
    p_value: float
    critical_difference: float

    def as_dict(self) -> dict[str, float]:
        """Mean ranks by model."""
        return {model: float(rank) for model, rank in zip(self.models, self.mean_rank, strict=True)}


def compare(models: list[str], scores: Any, level: float = 0.05) -> Comparison:
    r"""Mean ranks with Friedman's test and Nemenyi's critical difference.

    With k models on N sets, the critical difference is
    :math:`q \sqrt{k (k + 1) / 6 N}`, q being the quantile of the studentised
    range for k groups and infinitely many degrees of freedom over
    :math:`\sqrt 2` (Demšar, 2006).

    Parameters
    ----------
    models : list of str
    scores : array-like of shape (n_sets, n_models)
        Lower is better; NaN where a model has no score.
    level : float, default=0.05
    """
    n_sets, k = np.shape(scores)
    if n_sets == 0 or k == 0:
        return Comparison(models, np.full(k, np.nan), 0, float("nan"), float("nan"))
    ranks = rank_rows(scores)
    p_value = difference = float("nan")
    if n_sets > 1 and k > 1:
        q = float(studentized_range.ppf(1.0 - level, k, np.inf)) / 2.0**0.5
        difference = q * (k * (k + 1) / (6.0 * n_sets)) ** 0.5
    if n_sets > 1 and k > 2:
        # All ties in every row leave nothing to test.
        equal = bool((ranks == ranks[:, :1]).all())
        p_value = 1.0 if equal else float(friedmanchisquare(*ranks.T).pvalue)
    return Comparison(models, ranks.mean(0), n_sets, p_value, difference)


def signed_rank(first: Sequence[float], second: Sequence[float]) -> float:
    """P of Wilcoxon's signed-rank test, two-sided, that neither of two paired scores is larger.

    Pairs that are equal say nothing and are left out; NaN with fewer than two others.

    Examples
    --------
    Of all signs of five differences without ties two are as extreme as these:

    >>> signed_rank([2.0, 4.0, 6.0, 8.0, 10.0], [1.0, 2.0, 3.0, 4.0, 5.0])
    0.0625
    """
    # Scores of equal rows may differ in their last digits.
    leads = np.round(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64), 12)
    leads = leads[leads != 0.0]
    return float(wilcoxon(leads).pvalue) if len(leads) > 1 else float("nan")


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction for as many tests as there are: adjusted p-values, NaN where there was no test.

    Examples
    --------
    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    tested = sorted((p, name) for name, p in p_values.items() if not np.isnan(p))
    adjusted, highest = dict.fromkeys(p_values, float("nan")), 0.0
    for i, (p, name) in enumerate(tested):
        highest = max(highest, min(1.0, (len(tested) - i) * p))
        adjusted[name] = highest
    return adjusted


def newest(results: Iterable[Result]) -> dict[tuple[str, int, str], Result]:
    """By set, split and model, the last of all versions and configurations."""
    chosen: dict[tuple[str, int, str], Result] = {}
    for result in results:
        place = (result.data, result.split, result.model)
        if place not in chosen or result.started >= chosen[place].started:
            chosen[place] = result
    return chosen
