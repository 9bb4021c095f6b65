"""Ranks of models over sets, and whether their differences could be chance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import friedmanchisquare, rankdata, studentized_range

FloatArray = npt.NDArray[np.floating]


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
