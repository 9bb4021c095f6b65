r"""From covariances with the inducing points to latent moments and class probabilities.

Everything that does not depend on the row is multiplied out. With
:math:`S_j^{-1} = R_j R_j^\top = U \Lambda U^\top` and :math:`a = L^{-1} k` the variance
:math:`k(x, x) - a^\top a + a^\top S_j a` (eq. 1.4) is :math:`k(x, x) - |Q_j^\top k|^2` with
:math:`Q_j = L^{-\top} U (I - \Lambda^{-1})^{1/2}`. Two things make that fit for single precision.
One product does it, and although :math:`L^{-1}` may be very large, :math:`Q_j` is not: directions
that the inducing points hardly span are those about which the rows say little, so that
:math:`I - \Lambda^{-1}` is as small as :math:`L^{-\top}` is large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bayesvm._compiled.gumbel import LOGISTIC, WIDEST_LINE, expected_softmax
from bayesvm._compiled.kernels import Brief, product

Array = npt.NDArray[Any]


@dataclass(frozen=True, repr=False)
class FoldedPosterior(Brief):
    """Means and variances of J latent functions, or of one variance shared by all.

    Attributes
    ----------
    alpha : ndarray of shape (P, J)
        L^{-T} m, in double precision: means are sums that cancel, and cheap.
    removed : ndarray of shape (V, P, r)
        Q_j of every variance; directions that none of them needs are left out.
    added : ndarray of shape (V, P, r') or None
        Directions in which the posterior is wider than the prior; only
        likelihoods that are not log-concave make any.
    factor : ndarray of shape (V,)
        On prior variances.
    """

    alpha: Array
    removed: Array
    added: Array | None
    factor: Array

    def __call__(self, k: Array, prior: Array) -> tuple[Array, Array]:
        """Means (n, J) and variances (n, V) from covariances (n, P) and prior variances (n,) or ()."""
        F = product(k.astype(np.float64, copy=False), self.alpha)
        s2 = np.asarray(prior).reshape(-1, 1) * self.factor - _squares(k, self.removed)
        if self.added is not None:
            s2 += _squares(k, self.added)
        return F, np.maximum(s2, 0.0, out=s2)


def _squares(k: Array, Q: Array) -> Array:
    """|Q_v^T k|^2 for every row and variance, shape (n, V), in double precision."""
    if k.shape[0] == 1:
        q = k[0] @ Q
        return np.einsum("vr,vr->v", q, q)[None, :]
    out = np.empty((k.shape[0], Q.shape[0]))
    for v, Q_v in enumerate(Q):  # one by one they stay in the cache
        q = product(k, Q_v)
        out[:, v] = np.einsum("nr,nr->n", q, q)
    return out


# Distances of a block of rows stay in the cache.
_BLOCK_NUMBERS = 100_000
# Rows of a group, represented by its smallest distance in the search for the nearest.
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
        """The nearest rows, ties broken by their order as in ``_core.nearest``.

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


# Numbers of rows × nodes treated at once: they stay in the cache.
_CHUNK_NUMBERS = 80_000
# Logarithms of odds end here, so that their exponentials are finite in single precision.
_LARGEST_LOG = 80.0


class Readout(Protocol):
    """Class probabilities (n, C) from means (n, J) and variances (n, J) or, if shared, (n, 1) (eq. 6.4)."""

    def __call__(self, F: Array, s2: Array) -> Array: ...


@dataclass(frozen=True, repr=False)
class ExpectedSoftmax(Brief):
    """E softmax(f), f in units of the temperature (eq. 6.21).

    Attributes
    ----------
    mixing : ndarray of shape (C, C) or None
        What the means of classes add to those of others (eq. 6.9).
    dtype : str
    """

    mixing: Array | None
    dtype: str

    def __call__(self, F: Array, s2: Array) -> Array:
        mean = F if self.mixing is None else F + F @ self.mixing
        return expected_softmax(mean, np.sqrt(s2), self.dtype)


@dataclass(frozen=True, repr=False)
class SigmoidAtNodes(Brief):
    """E sigmoid(f) for two classes, whose difference f is one number.

    Attributes
    ----------
    nodes, weight : ndarray of shape (S,)
    """

    nodes: Array
    weight: Array

    def __call__(self, F: Array, s2: Array) -> Array:
        difference = F[:, :1] if F.shape[1] == 1 else F[:, 1:] - F[:, :1]
        variance = s2 if F.shape[1] == 1 else np.add.reduce(np.broadcast_to(s2, F.shape), 1, keepdims=True)
        if float(variance.max()) > WIDEST_LINE**2:  # the nodes would be too far apart for a sigmoid
            difference *= np.sqrt(np.minimum((WIDEST_LINE**2 + LOGISTIC) / (variance + LOGISTIC), 1.0))
            variance = np.minimum(variance, WIDEST_LINE**2)
        mean = difference.astype(self.nodes.dtype, copy=False)
        deviation = np.sqrt(variance).astype(self.nodes.dtype, copy=False)
        result = np.empty((F.shape[0], 2))
        size = max(1, _CHUNK_NUMBERS // self.nodes.size)
        for start in range(0, F.shape[0], size):
            rows = slice(start, start + size)
            odds = deviation[rows] * self.nodes
            odds += mean[rows]
            np.clip(odds, -_LARGEST_LOG, _LARGEST_LOG, out=odds)
            np.exp(odds, out=odds)
            first = np.reciprocal(1.0 + odds)
            result[rows, 0] = first @ self.weight
            result[rows, 1] = np.multiply(odds, first, out=odds) @ self.weight
        result /= np.add.reduce(result, 1, keepdims=True)
        return result


@dataclass(frozen=True, repr=False)
class CommitteeReadout(Brief):
    """The members of a committee, whose latent functions stand side by side (eq. 11.2).

    Attributes
    ----------
    members : tuple of Readout
    weights : tuple of float
    """

    members: tuple[Readout, ...]
    weights: tuple[float, ...]

    def __call__(self, F: Array, s2: Array) -> Array:
        n = len(self.members)
        parts = zip(self.members, self.weights, np.hsplit(F, n), np.hsplit(s2, n), strict=True)
        return np.add.reduce([weight * member(mean, var) for member, weight, mean, var in parts])


@dataclass(frozen=True)
class OwnProbabilities:
    """Those of a likelihood that is a distribution over classes, evaluated through torch.

    Attributes
    ----------
    likelihood : ProperLikelihood
    """

    likelihood: Any

    def __call__(self, F: Array, s2: Array) -> Array:
        import torch

        s2 = np.broadcast_to(s2, F.shape)
        if F.shape[1] == 1:  # a difference is dealt to two classes (eq. 7.1)
            F, s2 = np.concatenate([-0.5 * F, 0.5 * F], 1), np.repeat(0.5 * s2, 2, 1)
        with torch.no_grad():
            proba = self.likelihood.probabilities(torch.tensor(F), torch.tensor(s2)).proba
        return np.asarray(proba.to(torch.float64).numpy())
