"""From rows to whitened features (eq. 1.3), and how the bound changes with them (eq. 5.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._core import linalg
from bayesvm._core.gaussian import Gaussian, roots
from bayesvm._core.kernels.base import CrossToInducing, Kernel, Params
from bayesvm._core.kernels.compose import cross_to_inducing, on_rows


class Features(NamedTuple):
    r"""Whitened features and what they leave unexplained (eq. 1.3).

    Attributes
    ----------
    A : Tensor of shape (N, P)
        Rows :math:`a_n = L^{-1} k(Z, x_n)`.
    residual : Tensor of shape (N,)
        :math:`\tilde k_n = k(x_n, x_n) - a_n^\top a_n`, clipped at zero.
    """

    A: Tensor
    residual: Tensor


def inducing_factor(kernel: Kernel, params: Params, Z: Tensor) -> Tensor:
    """Cholesky factor L of K_ZZ."""
    return linalg.cholesky(kernel.cross(params, Z, Z))


def whitened_features(kernel: Kernel, params: Params, Z: Tensor, Lz: Tensor, X: Tensor) -> Features:
    """Whitened features of the rows of X, given L with L L^T = K_ZZ (eq. 1.3)."""
    return _whitened(Lz, kernel.cross(params, X, Z), kernel.diag(params, X))


def _whitened(Lz: Tensor, Kxz: Tensor, diagonal: Tensor) -> Features:
    # Solving for the transpose of a row-major matrix gives row-major features.
    A = linalg.solve_lower(Lz, Kxz.mT).mT
    return Features(A, (diagonal - torch.linalg.vecdot(A, A)).clamp_min(0.0))


@dataclass(frozen=True)
class FeaturesOfMany:
    """Whitened features of many batches of rows under a fixed kernel (eq. 1.3); can be pickled."""

    kernel: Kernel
    params: Params
    Lz: Tensor
    cross: CrossToInducing

    @classmethod
    def like(cls, kernel: Kernel, params: Params, Z: Tensor, Lz: Tensor, X: Tensor) -> FeaturesOfMany:
        """Features prepared for rows like X, whose values are inspected."""
        return cls(kernel, params, Lz, cross_to_inducing(kernel, params, Z, X))

    def __call__(self, X: Tensor) -> Features:
        """Features of the rows of X."""
        return _whitened(self.Lz, self.cross(X), self.kernel.diag(self.params, X))


class FeaturesOfRows:
    """Whitened features of fixed rows under changing kernel parameters (eq. 1.3).

    Small problems pay for the number of calls. Where the rows are the
    inducing points themselves there is only one matrix to compute, and the
    kernel may prepare itself for the rows.
    """

    def __init__(self, kernel: Kernel, X: Tensor, Z: Tensor) -> None:
        self._kernel = on_rows(kernel, X)
        self._X = X
        self._dense = Z.shape == X.shape and torch.equal(Z, X) and not Z.requires_grad

    def __call__(self, params: Params, Z: Tensor) -> Features:
        """Features under these parameters and inducing points, factor of K_ZZ included."""
        if self._dense:
            # L^{-1} K = L^T up to jitter, and nothing is left unexplained.
            A = linalg.cholesky(self._kernel.cross(params, self._X, self._X))
            return Features(A, A.new_zeros(A.shape[0]))
        Kxz, Kzz = self._kernel.cross(params, self._X, Z), self._kernel.cross(params, Z, Z)
        return _whitened(linalg.cholesky(Kzz), Kxz, self._kernel.diag(params, self._X))


class DifferentiableFeatures:
    r"""Whitened features of rows, and their derivatives in kernel parameters and inducing points (eq. 1.3).

    For steps of gradient ascent on minibatches. The derivative of the
    factorisation is in closed form and outside of autograd: half the time of
    the plain way at a few hundred rows, where calls cost as much as arithmetic.

    Attributes
    ----------
    A, residual : Tensor of shape (N, P) and (N,)
        Without gradient.
    """

    def __init__(self, kernel: Kernel, params: Params, Z: Tensor, X: Tensor) -> None:
        self._covariances = kernel.cross(params, X, Z), kernel.cross(params, Z, Z), kernel.diag(params, X)
        with torch.no_grad():
            Kxz, Kzz, diagonal = self._covariances
            self._L = linalg.cholesky(Kzz)
            self.A, self.residual = _whitened(self._L, Kxz, diagonal)

    def gradient(
        self, params: Sequence[Tensor], by_A: Tensor, by_residual: Tensor
    ) -> Sequence[Tensor | None]:
        r"""Derivatives with respect to some leaves, given those with respect to features and residuals.

        With :math:`T = \bar A - 2 \bar r \circ A` the adjoints of the covariances
        are :math:`T L^{-1}` for the rows and :math:`-L^{-\top} \Phi(T^\top A) L^{-1}`
        for the inducing points, where :math:`\Phi` keeps the lower triangle
        and half of the diagonal. The second is not symmetric and need not be.
        """
        L = self._L
        with torch.no_grad():
            by_residual = by_residual * (self.residual > 0)
            T = torch.addcmul(by_A, self.A, by_residual[:, None], value=-2.0)
            inner = torch.mm(T.mT, self.A).tril_()
            inner.diagonal().mul_(0.5)
            inner = linalg.solve_lower_transposed(L, inner.neg_())
            by_Kxz, by_Kzz = (
                torch.linalg.solve_triangular(L, B, upper=False, left=False) for B in (T, inner)
            )
        adjoints = (by_Kxz, by_Kzz, by_residual)
        used = [(K, g) for K, g in zip(self._covariances, adjoints, strict=True) if K.requires_grad]
        return torch.autograd.grad([K for K, _ in used], params, [g for _, g in used], allow_unused=True)


def second_moments(q: Gaussian) -> Tensor:
    r"""Second moments :math:`S_j + m_j m_j^\top` of q(v_j), shape (C, P, P)."""
    T = roots(q).T
    return T @ T.mT + q.m.unsqueeze(2) * q.m.unsqueeze(1)


def feature_gradient(
    A: Tensor,
    classes: Tensor | None,
    W: Tensor,
    G: Tensor,
    m: Tensor,
    M: Tensor,
    MA: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Derivatives of the expected log-likelihood with respect to features and residuals (eqs. 5.7, 8.16).

    .. math:: \bar a_n = \sum_j G_{nj} m_j - W_{nj} (S_j + m_j m_j^\top) a_n, \qquad
              \bar r_n = -\tfrac12 \sum_j W_{nj} .

    Exact at fixed q, for sites that q itself gives rise to. Slopes
    :math:`G_{nj} - W_{nj} a_n^\top m_j` with covariances give the same as G with second moments.

    Parameters
    ----------
    A : Tensor of shape (N, P)
    classes : Tensor of shape (N, K) or None
        Latent functions that the columns of W and G touch; None: all, in order.
    W, G : Tensor of shape (N, K)
        Sites of the rows, weights included; G may be slopes.
    m, M : Tensor of shape (C, P) and (C, P, P)
        Means and second moments of q, or its covariances if G are slopes.
    MA : Tensor of shape (N, C, P) or None
        Products M_j a_n, where they are known and all functions are touched.
    """
    by_residual = -0.5 * W.sum(1)
    if MA is not None:
        return (G @ m).sub_((W[:, :, None] * MA).sum(1)), by_residual
    if classes is None:
        by_A = G @ m
        for j in range(m.shape[0]):
            by_A.addcmul_(A @ M[j], W[:, j : j + 1], value=-1.0)
        return by_A, by_residual
    by_A = torch.zeros_like(A)
    K = classes.shape[1]
    order = classes.reshape(-1).argsort(stable=True)
    counts = torch.bincount(classes.reshape(-1), minlength=m.shape[0]).tolist()
    W, G = W.reshape(-1), G.reshape(-1)
    for j, pairs in enumerate(order.split(counts)):
        if pairs.numel():
            rows = pairs.div(K, rounding_mode="floor")
            part = torch.outer(G[pairs], m[j]).addcmul_(A[rows] @ M[j], W[pairs, None], value=-1.0)
            by_A.index_add_(0, rows, part)
    return by_A, by_residual
