"""The local part of the latent means, folded (section 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.compiled.brief import Brief
from bayesvm.compiled.products import product

__all__ = ["FoldedLocal"]

Array = npt.NDArray[Any]

# Distances of a block of rows stay in the cache.
_BLOCK_NUMBERS = 100_000
# Rows whose smallest distance stands for them in the search for the nearest.
_GROUP = 32


@dataclass(frozen=True, repr=False)
class FoldedLocal(Brief):
    """What the sites of the nearest rows add to the means (eq. 10.2), in double precision.

    Attributes
    ----------
    scale, middle : ndarray of shape (D,)
        From standardised to comparable columns.
    X : ndarray of shape (N, D)
        Rows, comparable.
    half_norms : ndarray of shape (N,)
        Half of their squared norms.
    root : ndarray of shape (N, J)
        Square roots of the precisions of their sites.
    b : ndarray of shape (N, J)
        Pull of their sites.
    variance, rate : float
        Of the covariance; the rate is 1 / (2 length^2).
    step : float
        Half squared distances are told apart to this.
    n_neighbours : int
    """

    scale: Array
    middle: Array
    X: Array
    half_norms: Array
    root: Array
    b: Array
    variance: float
    rate: float
    step: float
    n_neighbours: int

    def mean(self, U: Array) -> Array:
        """What to add to the means of standardised rows, shape (n, J)."""
        u = U * self.scale
        u -= self.middle
        K, J = self.n_neighbours, self.b.shape[1]
        size = max(1, _BLOCK_NUMBERS // max(self.X.shape[0], K * (J * K + self.X.shape[1])))
        if u.shape[0] <= size:
            return self._mean(u)
        return np.concatenate([self._mean(u[i : i + size]) for i in range(0, u.shape[0], size)])

    def _mean(self, u: Array) -> Array:
        i = self._nearest(u)
        close = self.X[i]  # (n, K, D)
        k = self._covariance(close - u[:, None, :])
        between = self._covariance(close[:, :, None, :] - close[:, None, :, :])
        root, pull = self.root[i].transpose(0, 2, 1), self.b[i].transpose(0, 2, 1)  # (n, J, K)
        A = root[..., :, None] * between[:, None] * root[..., None, :]
        np.einsum("njkk->njk", A)[...] += 1.0
        explained = np.linalg.solve(A, (root * (pull @ between))[..., None])[..., 0]
        return np.einsum("njk,nk->nj", pull - root * explained, k)

    def _covariance(self, difference: Array) -> Array:
        return self.variance * np.exp(-self.rate * np.einsum("...d,...d->...", difference, difference))

    def _nearest(self, u: Array) -> Array:
        """The nearest rows, ties broken by their order as in ``core.nearest``.

        The K-th smallest minimum of groups of rows bounds the K-th smallest
        distance, and rounding is monotone, so that nothing farther than a step
        beyond it can be among the nearest: few rows are left to look at closely.
        """
        K, N = self.n_neighbours, self.X.shape[0]
        if K == N:
            return np.broadcast_to(np.arange(N), (u.shape[0], N))
        half_d2 = self.half_norms - product(u, self.X.T)
        half_d2 += 0.5 * np.einsum("nd,nd->n", u, u)[:, None]
        group = min(_GROUP, N // K)
        grouped = half_d2[:, : N - N % group].reshape(u.shape[0], group, -1)
        bound = np.partition(np.minimum.reduce(grouped, 1), K - 1, 1)[:, K - 1] + self.step
        nearest = np.empty((u.shape[0], K), np.intp)
        for row, most, out in zip(half_d2, bound, nearest, strict=True):
            close = np.flatnonzero(row <= most)
            if len(close) > K:
                key = np.maximum(np.rint(row[close] / self.step), 0.0)
                close = close[np.argsort(key, kind="stable")[:K]]
            out[:] = close
        return nearest
