r"""The variational posterior q(v_j) = N(m_j, S_j), one Gaussian per latent function."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm.core import linalg

__all__ = ["Gaussian", "centred", "from_natural", "kl_divergence", "mean", "prior", "variance"]


class Gaussian(NamedTuple):
    r"""q(v) in the form every formula here needs (eq. 3.1).

    Attributes
    ----------
    m : Tensor of shape (C, P)
        Means.
    R : Tensor of shape (C, P, P)
        Lower Cholesky factors of the precisions, :math:`S_j^{-1} = R_j R_j^\top`.
    """

    m: Tensor
    R: Tensor


def prior(n_latents: int, n_inducing: int, like: Tensor) -> Gaussian:
    """The prior N(0, I) of every latent function."""
    m = like.new_zeros(n_latents, n_inducing)
    eye = torch.eye(n_inducing, dtype=like.dtype, device=like.device)
    return Gaussian(m, eye.expand(n_latents, -1, -1).contiguous())


def from_natural(precision: Tensor, linear: Tensor) -> Gaussian:
    """Gaussian with precisions (C, P, P) and linear parts (C, P) (eq. 3.1)."""
    R = linalg.cholesky_precision(precision)
    m = torch.cholesky_solve(linear.unsqueeze(-1), R).squeeze(-1)
    return Gaussian(m, R)


def centred(q: Gaussian) -> Gaussian:
    """Remove the part of the means common to all classes (eq. 3.5).

    The likelihood sees differences only, so this changes nothing but the KL, which falls.
    """
    if q.m.shape[0] == 1:
        return q
    return Gaussian(q.m - q.m.mean(0, keepdim=True), q.R)


def mean(q: Gaussian, A: Tensor) -> Tensor:
    """Latent means F = A m^T, shape (N, C) (eq. 1.4)."""
    return A @ q.m.mT


def variance(q: Gaussian, A: Tensor) -> Tensor:
    r"""Explained latent variances :math:`V_{nj} = a_n^\top S_j a_n`, shape (N, C) (eq. 1.4)."""
    return linalg.inverse_quadratic(q.R, A.mT.expand(q.R.shape[0], -1, -1)).mT


def kl_divergence(q: Gaussian, p: Gaussian) -> Tensor:
    """KL(q || p) of every latent function, shape (C,) (eq. 1.5, where p is the prior)."""
    P = q.m.shape[-1]
    trace = torch.linalg.matrix_norm(linalg.solve_lower(q.R, p.R)).square()
    distance = (p.R.mT @ (q.m - p.m).unsqueeze(-1)).square().sum((-2, -1))
    return 0.5 * (trace + distance - P + linalg.log_det(q.R) - linalg.log_det(p.R))
