"""From rows to whitened features (eq. 1.3)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm.core import linalg
from bayesvm.core.kernels.base import Kernel, Params

__all__ = ["Features", "features_of_sample", "inducing_factor", "whitened_features"]


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


def features_of_sample(kernel: Kernel, params: Params, Z: Tensor, X: Tensor) -> Features:
    """Whitened features of a few rows under a new kernel, factor of K_ZZ included (eq. 1.3).

    One evaluation of the kernel serves both matrices: small problems pay
    for the number of calls, and where the rows are the inducing points
    themselves there is only one matrix to begin with.
    """
    if Z.shape == X.shape and torch.equal(Z, X):
        Kxz = Kzz = kernel.cross(params, Z, Z)
    else:
        Kxz, Kzz = kernel.cross(params, torch.cat([X, Z]), Z).split([X.shape[0], Z.shape[0]])
    return _whitened(linalg.cholesky(Kzz), Kxz, kernel.diag(params, X))
