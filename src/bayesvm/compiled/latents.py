r"""Latent moments from covariances with the inducing points, everything else multiplied out.

With :math:`S_j^{-1} = R_j R_j^\top = U \Lambda U^\top` and :math:`a = L^{-1} k` the variance
:math:`k(x, x) - a^\top a + a^\top S_j a` (eq. 1.4) is :math:`k(x, x) - |Q_j^\top k|^2` with
:math:`Q_j = L^{-\top} U (I - \Lambda^{-1})^{1/2}`. Two things make that fit for single precision.
One product does it, and although :math:`L^{-1}` may be very large, :math:`Q_j` is not: directions
that the inducing points hardly span are those about which the rows say little, so that
:math:`I - \Lambda^{-1}` is as small as :math:`L^{-\top}` is large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.compiled.brief import Brief
from bayesvm.compiled.products import product

__all__ = ["FoldedPosterior"]

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
    factor : float
        On prior variances.
    """

    alpha: Array
    removed: Array
    added: Array | None
    factor: float

    def __call__(self, k: Array, prior: Array) -> tuple[Array, Array]:
        """Means (n, J) and variances (n, V) from covariances (n, P) and prior variances (n,) or ()."""
        F = product(k.astype(np.float64, copy=False), self.alpha)
        s2 = np.asarray(self.factor * prior).reshape(-1, 1) - _squares(k, self.removed)
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
