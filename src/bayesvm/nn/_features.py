"""From the features of a network to whitened features, without waiting for the device (eqs. 1.3, 9.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from bayesvm._core.features import Features
from bayesvm._core.kernels.base import Kernel, Params

# Relative to the mean of the diagonal. Features in single precision are not
# known better than this; in double precision the factorisation then cannot fail.
JITTER = 1e-6


class Whitened(NamedTuple):
    """Whitened features of rows (eq. 9.1).

    Attributes
    ----------
    A : Tensor of shape (N, P)
    residual : Tensor of shape (N,)
    diag : Tensor of shape (N,)
        Prior variances of the rows, :math:`k(x_n, x_n)`.
    """

    A: Tensor
    residual: Tensor
    diag: Tensor

    @property
    def features(self) -> Features:
        """In the form that the rest of the library knows."""
        return Features(self.A, self.residual)


class _InverseFactor(torch.autograd.Function):
    r"""M with :math:`M K M^\top = I`, lower triangular, and its derivative in closed form (eq. 9.2)."""

    @staticmethod
    def forward(ctx: Any, K: Tensor) -> Tensor:
        eye = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
        shift = JITTER * K.diagonal().mean()
        # With the jitter only what is not finite can fail. It stays so, and the head
        # reports it; asking here would wait for the device.
        L, _ = torch.linalg.cholesky_ex(torch.addcmul(K, eye, shift))
        M = torch.linalg.solve_triangular(L, eye, upper=False)
        ctx.save_for_backward(M)
        return M

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (M,) = ctx.saved_tensors
        inner = (grads[0] @ M.mT).tril()
        inner = inner - torch.diag_embed(0.5 * inner.diagonal())
        return -(M.mT @ inner @ M)


class _Whitening(torch.autograd.Function):
    """Whitened features and what they leave unexplained; fewer kernels on the way back (eq. 9.1)."""

    @staticmethod
    def forward(ctx: Any, K: Tensor, M: Tensor, diag: Tensor) -> tuple[Tensor, Tensor]:
        A = K @ M.mT
        residual = (diag - torch.linalg.vecdot(A, A)).clamp_min_(0.0)
        ctx.save_for_backward(A, residual, K, M)
        return A, residual

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        A, residual, K, M = ctx.saved_tensors
        by_diag = grads[1] * (residual > 0)
        by_A = torch.addcmul(grads[0], A, by_diag[:, None], value=-2.0)
        return by_A @ M, by_A.mT @ K, by_diag


def inverse_factor(kernel: Kernel, params: Params, Z: Tensor) -> Tensor:
    r"""Inverse of the Cholesky factor of :math:`K_{ZZ}`, in double precision whatever the inputs are.

    Measured with points on a plane, as trained features are nearly: in single
    precision the whitened features are fifty times less exact (docs/nn.md).
    """
    Z = Z.double()
    # The same numbers under another name: torch.compile wants no input twice.
    K = kernel.cross({k: v.double() for k, v in params.items()}, Z, Z.view_as(Z))
    return _InverseFactor.apply(K)  # type: ignore[no-untyped-call]


def whitened(kernel: Kernel, params: Params, Z: Tensor, X: Tensor, M: Tensor) -> Whitened:
    """Whitened features of rows, given the inverse factor of K_ZZ; differentiable in all inputs (eq. 9.1)."""
    diag = kernel.diag(params, X)
    A, residual = _Whitening.apply(kernel.cross(params, X, Z), M, diag)  # type: ignore[no-untyped-call]
    return Whitened(A, residual, diag)
