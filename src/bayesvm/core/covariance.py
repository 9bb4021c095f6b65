"""From rows to whitened features (eq. 1.3)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm.core import linalg
from bayesvm.core.kernels.base import Kernel, Params
from bayesvm.core.kernels.compose import on_rows

__all__ = ["Features", "FeaturesOfRows", "inducing_factor", "whitened_features"]


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


class FeaturesOfRows:
    """Whitened features of the same rows under one kernel after another (eq. 1.3).

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
