r"""The variational posterior q(v_j) = N(m_j, S_j), one Gaussian per latent function."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm.core import linalg

__all__ = [
    "Gaussian",
    "Roots",
    "centred",
    "from_natural",
    "kl_divergence",
    "mean",
    "prior",
    "root_variance",
    "rooted",
    "roots",
    "variance",
]

# Numbers in the solutions that variances and traces are the norms of.
_PART_NUMBERS = 4_000_000


class Gaussian(NamedTuple):
    r"""q(v) in the form every formula here needs (eq. 3.1).

    Attributes
    ----------
    m : Tensor of shape (C, P)
        Means.
    R : Tensor of shape (C, P, P)
        Lower Cholesky factors of the precisions, :math:`S_j^{-1} = R_j R_j^\top`.
    T : Tensor of shape (C, P, P) or None
        Roots of the covariances, :math:`T_j = R_j^{-\top}`, where they are known; of N(m, I), R itself.
    """

    m: Tensor
    R: Tensor
    T: Tensor | None = None

    def __reduce__(self) -> tuple[type[Gaussian], tuple[Tensor, Tensor]]:
        """Roots are not sent along: they are as large as the factors, and follow from them."""
        return Gaussian, (self.m, self.R)


class Roots(NamedTuple):
    r"""q(v) for the moments of many rows: products instead of solves.

    A triangular solve takes from one and a half times (double precision) to six
    times (single) as long as the product with the inverse factor. Precisions are
    at least one, so the inverse is as good as the factor.

    Attributes
    ----------
    m : Tensor of shape (C, P)
        Means.
    T : Tensor of shape (C, P, P)
        Upper-triangular roots of the covariances, :math:`S_j = T_j T_j^\top`.
    """

    m: Tensor
    T: Tensor

    def to(self, dtype: torch.dtype) -> Roots:
        """The same in another precision."""
        return Roots(self.m.to(dtype), self.T.to(dtype))


def roots(q: Gaussian) -> Roots:
    r"""Means and roots :math:`T_j = R_j^{-\top}` of the covariances."""
    return Roots(q.m, _inverse_transposed(q.R) if q.T is None else q.T)


def _inverse_transposed(R: Tensor) -> Tensor:
    eye = torch.eye(R.shape[-1], dtype=R.dtype, device=R.device)
    # Solutions come column by column, so the transpose of this one needs no copy: half the time.
    return linalg.solve_lower(R, eye.expand_as(R)).mT.contiguous()


def prior(n_latents: int, n_inducing: int, like: Tensor) -> Gaussian:
    """The prior N(0, I) of every latent function."""
    m = like.new_zeros(n_latents, n_inducing)
    eye = torch.eye(n_inducing, dtype=like.dtype, device=like.device)
    R = eye.expand(n_latents, -1, -1).contiguous()
    return Gaussian(m, R, R)


def from_natural(precision: Tensor, linear: Tensor) -> Gaussian:
    """Gaussian with precisions (C, P, P) and linear parts (C, P) (eq. 3.1)."""
    R = linalg.cholesky_precision(precision)
    m = torch.cholesky_solve(linear.unsqueeze(-1), R).squeeze(-1)
    return Gaussian(m, R)


def rooted(precision: Tensor, linear: Tensor) -> Gaussian:
    """The same with the roots, which serve for means, moments and the KL alike."""
    R = linalg.cholesky_precision(precision)
    T = _inverse_transposed(R)
    return Gaussian((T @ (T.mT @ linear.unsqueeze(-1))).squeeze(-1), R, T)


def centred(q: Gaussian) -> Gaussian:
    """Remove the part of the means common to all classes (eq. 3.5).

    The likelihood sees differences only, so this changes nothing but the KL, which falls.
    """
    if q.m.shape[0] == 1:
        return q
    return Gaussian(q.m - q.m.mean(0, keepdim=True), q.R, q.T)


def mean(q: Gaussian, A: Tensor) -> Tensor:
    """Latent means F = A m^T, shape (N, C) (eq. 1.4)."""
    return A @ q.m.mT


def variance(q: Gaussian, A: Tensor) -> Tensor:
    r"""Explained latent variances :math:`V_{nj} = a_n^\top S_j a_n`, shape (N, C) (eq. 1.4).

    Classes are taken in parts, so that memory does not grow with C P N.
    """
    size = max(1, _PART_NUMBERS // max(1, A.numel()))
    parts = [linalg.inverse_quadratic(R, A.mT.expand(R.shape[0], -1, -1)) for R in q.R.split(size)]
    return torch.cat(parts).mT


def root_variance(q: Roots, A: Tensor) -> Tensor:
    r"""The same from roots, :math:`V_{nj} = |T_j^\top a_n|^2`: one product for all classes."""
    C, P = q.m.shape
    B = A @ q.T.transpose(0, 1).reshape(P, C * P)
    return torch.linalg.vector_norm(B.view(-1, C, P), dim=2).square_()


def kl_divergence(q: Gaussian, p: Gaussian) -> Tensor:
    """KL(q || p) of every latent function, shape (C,) (eq. 1.5, where p is the prior)."""
    P = q.m.shape[-1]
    if q.T is not None and p.T is p.R:  # from N(m, I), with the trace at hand
        trace = torch.linalg.vector_norm(q.T, dim=(-2, -1)).square()
        return 0.5 * (trace + (q.m - p.m).square().sum(-1) - P + linalg.log_det(q.R))
    # Classes in parts: what is between factors and traces stays in the cache.
    parts = (R.split(max(1, _PART_NUMBERS // P**2)) for R in (q.R, p.R))
    norms = [
        torch.linalg.vector_norm(linalg.solve_lower(*pair), dim=(-2, -1)) for pair in zip(*parts, strict=True)
    ]
    trace = torch.cat(norms).square()
    distance = (p.R.mT @ (q.m - p.m).unsqueeze(-1)).square().sum((-2, -1))
    return 0.5 * (trace + distance - P + linalg.log_det(q.R) - linalg.log_det(p.R))
