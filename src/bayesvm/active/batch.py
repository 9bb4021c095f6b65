"""A batch of rows that differ: each is asked for what the others would leave unknown."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from bayesvm.active.shortlist import top

__all__ = ["Batch", "Covariance", "PosteriorCovariance", "greedy_batch"]

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]
# Rows looked at first, for each row of the batch; more are looked at if need be.
_FIRST_LOOK = 64
# A latent known this much better than before is known.
_KNOWN = 1e-10


class Covariance(Protocol):
    """Posterior covariance of the latent functions between rows."""

    def variance(self, rows: IntArray) -> FloatArray:
        """Variances, shape (len(rows), n_latents)."""

    def with_row(self, rows: IntArray, row: int) -> FloatArray:
        """Covariances of rows with one row, shape (len(rows), n_latents)."""


class Batch(NamedTuple):
    """Rows in the order chosen and the worth of all rows when each was chosen.

    Attributes
    ----------
    rows : ndarray of shape (n,)
    looked_at : ndarray of shape (m,)
        Rows whose worth was computed; any other is worth less than those chosen.
    worth : ndarray of shape (n, m)
        NaN for rows chosen before.
    """

    rows: IntArray
    looked_at: IntArray
    worth: FloatArray

    @property
    def least(self) -> float:
        """The smallest worth at which a row was chosen."""
        return float(np.nanmax(self.worth, 1).min()) if len(self.rows) else np.inf


def greedy_batch(
    scores: FloatArray,
    covariance: Covariance,
    n: int,
    rng: np.random.Generator | None = None,
    first_look: int | None = None,
) -> Batch:
    r"""Rows one after another by score times the share of latent variance the batch so far leaves.

    With B the rows chosen so far, the worth of a row is

    .. math:: score(x) \cdot \frac{1}{J} \sum_j \frac{Var[f_j(x) \mid f_j(B)]}{Var[f_j(x)]} ,

    so that a copy of a chosen row is worth nothing and a row far from all of
    them its whole score. The worth is at most the score: rows whose score
    misses the worth of every chosen row need no covariances.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
        NaN or minus infinity for rows that may not be chosen.
    covariance : Covariance
    n : int
    rng : Generator or None
        Decides between equal rows.
    first_look : int or None
        Rows whose covariances are looked at first; None: 64 for each row of the batch.
    """
    order = top(scores, len(scores), rng)
    n = min(n, order.size)
    look = min(order.size, first_look or max(1, _FIRST_LOOK * n))
    while True:
        batch = _greedy(scores, covariance, order[:look], n)
        beyond = scores[order[look]] if look < order.size else -np.inf
        if batch is not None and batch.least >= beyond:
            return batch
        look = min(order.size, 4 * look)


def _greedy(scores: FloatArray, covariance: Covariance, rows: IntArray, n: int) -> Batch | None:
    """The batch among some rows, in their order where worths are equal; None if they are too few."""
    if rows.size < n:
        return None
    before = covariance.variance(rows)
    left = before.copy()
    columns = np.zeros((n, *before.shape))
    worth = np.empty((n, rows.size))
    chosen = np.empty(n, dtype=np.int64)
    free = np.ones(rows.size, dtype=bool)
    for b in range(n):
        share = (np.maximum(left, 0.0) / before).mean(1)
        worth[b] = np.where(free, scores[rows] * share, np.nan)
        i = int(np.nanargmax(worth[b]))
        chosen[b], free[i] = i, False
        # One column of a pivoted Cholesky factor per latent function.
        column = covariance.with_row(rows, int(rows[i])) - np.einsum(
            "bnj,bj->nj", columns[:b], columns[:b, i]
        )
        known = left[i] <= _KNOWN * before[i]
        columns[b] = np.where(known, 0.0, column / np.sqrt(np.where(known, 1.0, left[i])))
        left = left - columns[b] ** 2
    return Batch(rows[chosen], rows, worth)


class PosteriorCovariance:
    r"""Covariance :math:`k(x, x') - a^\top a' + a^\top S_j a'` of a fitted classifier at some rows.

    Parameters
    ----------
    estimator : LatentClassifier
        Fitted.
    X : array-like of shape (n_rows, n_features)
    """

    def __init__(self, estimator: Any, X: Any) -> None:
        self._model, self._X = estimator._ready(X)

    def variance(self, rows: IntArray) -> FloatArray:
        """Variances, shape (len(rows), n_latents)."""
        with torch.no_grad():
            X = self._model.rows(self._X[rows])
            A, residual = self._model.features(X)
            V = self._explained(A).square().sum(1).mT + residual[:, None]
            return V.clamp_min(torch.finfo(V.dtype).tiny).cpu().numpy()

    def with_row(self, rows: IntArray, row: int) -> FloatArray:
        """Covariances of rows with one row, shape (len(rows), n_latents)."""
        model = self._model
        with torch.no_grad():
            X, x = model.rows(self._X[rows]), model.rows(self._X[row : row + 1])
            A, a = model.features(X).A, model.features(x).A
            prior = model.kernel.cross(model.params, X, x)[:, 0] - (A @ a.mT)[:, 0]
            explained = (self._explained(A) * self._explained(a)).sum(1).mT
            return (explained + prior[:, None]).cpu().numpy()

    def _explained(self, A: torch.Tensor) -> torch.Tensor:
        """What has the explained covariances as its inner products over the second axis, (J, P or S, n)."""
        q, drawn = self._model.q, self._model.draws
        if drawn is None:
            return torch.linalg.solve_triangular(q.R, A.mT.expand(q.R.shape[0], -1, -1), upper=False)
        deviations = (drawn - drawn.mean(0)).permute(1, 0, 2) / drawn.shape[0] ** 0.5
        return deviations @ A.mT
