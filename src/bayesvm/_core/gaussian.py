"""The variational posterior q(v_j) = N(m_j, S_j), one Gaussian per latent function."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._core import linalg

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
        """Pickled without the roots: they are as large as the factors, and follow from them."""
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
    """The same with the roots, which means, moments and the KL share."""
    R = linalg.cholesky_precision(precision)
    T = _inverse_transposed(R)
    return Gaussian((T @ (T.mT @ linear.unsqueeze(-1))).squeeze(-1), R, T)


def centred(q: Gaussian, n_members: int = 1) -> Gaussian:
    """Remove the part of the means common to all classes, for each member of a committee (eq. 3.5).

    The likelihood sees differences only, so this changes nothing but the KL, which falls.
    """
    if q.m.shape[0] == n_members:  # one function each, a difference: nothing is common to classes
        return q
    m = q.m.unflatten(0, (n_members, -1))
    return Gaussian((m - m.mean(1, keepdim=True)).flatten(0, 1), q.R, q.T)


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
    r"""The same from roots, :math:`V_{nj} = |T_j^\top a_n|^2`: products for all classes at once.

    T is upper triangular, so that a block of its columns needs no row below:
    two thirds of the time of the whole product.
    """
    C, P = q.m.shape
    V = A.new_zeros(A.shape[0], C)
    for block in linalg.column_blocks(P):
        T = q.T[:, : block.stop, block].transpose(0, 1).flatten(1)
        B = (A[:, : block.stop] @ T).unflatten(1, (C, -1))
        V += torch.linalg.vector_norm(B, dim=2).square_()
    return V


def kl_from(trace: Tensor, distance: Tensor, size: int, log_det: Tensor) -> Tensor:
    r"""KL(q || p) from its four parts, whichever factors they come from (eq. 1.5).

    Parameters
    ----------
    trace : Tensor
        :math:`\mathrm{tr}(S_p^{-1} S)`.
    distance : Tensor
        :math:`(m - m_p)^\top S_p^{-1} (m - m_p)`.
    size : int
        P, times the number of functions where the parts are sums over them.
    log_det : Tensor
        :math:`\log |S_p| - \log |S|`.
    """
    return 0.5 * (trace + distance - size + log_det)


def kl(q: Gaussian, p: Gaussian) -> Tensor:
    """KL(q || p) of every latent function, shape (C,) (eq. 1.5, where p is the prior)."""
    P = q.m.shape[-1]
    if q.T is not None and p.T is p.R:  # from N(m, I), whose trace is known
        trace = torch.linalg.vector_norm(q.T, dim=(-2, -1)).square()
        return kl_from(trace, (q.m - p.m).square().sum(-1), P, linalg.log_det(q.R))
    # Classes in parts, so that intermediate results stay in the cache.
    parts = (R.split(max(1, _PART_NUMBERS // P**2)) for R in (q.R, p.R))
    norms = [
        torch.linalg.vector_norm(linalg.solve_lower(*pair), dim=(-2, -1)) for pair in zip(*parts, strict=True)
    ]
    trace = torch.cat(norms).square()
    distance = (p.R.mT @ (q.m - p.m).unsqueeze(-1)).square().sum((-2, -1))
    return kl_from(trace, distance, P, linalg.log_det(q.R) - linalg.log_det(p.R))


def kl_of_factor(m: Tensor, L: Tensor, p: Gaussian | None = None) -> Tensor:
    r"""The same for covariances :math:`S_j = L_j L_j^\top`, differentiable in m and L (eq. 1.5).

    ``p`` is None for the prior; then :math:`S_j = L_j^\top L_j` will do as well.
    """
    log_det = -linalg.log_det(L)
    if p is not None:
        log_det = log_det - linalg.log_det(p.R)
        L, m = p.R.mT @ L, (p.R.mT @ (m - p.m).unsqueeze(-1)).squeeze(-1)
    flat = L.flatten(-2)
    return kl_from(torch.linalg.vecdot(flat, flat), torch.linalg.vecdot(m, m), m.shape[-1], log_det)


# --- Natural parameters of q and the moves between them.


class Natural(NamedTuple):
    """Natural parameters of q: precisions (C, P, P) and linear parts (C, P)."""

    precision: Tensor
    linear: Tensor

    @classmethod
    def prior(cls, n_latents: int, like: Tensor) -> Natural:
        """Those of N(0, I), for P x P matrices like ``like``."""
        P = like.shape[-1]
        eye = torch.eye(P, dtype=like.dtype, device=like.device)
        return cls(eye.expand(n_latents, P, P), like.new_zeros(n_latents, P))

    @classmethod
    def of(cls, q: Gaussian) -> Natural:
        """Those of a Gaussian."""
        return cls(q.R @ q.R.mT, (q.R @ (q.R.mT @ q.m.unsqueeze(-1))).squeeze(-1))

    def plus(self, precision: Tensor, linear: Tensor) -> Natural:
        """With the statistics of rows added (eq. 3.1)."""
        return Natural(self.precision + precision, self.linear + linear)

    def towards(self, other: Natural, rho: float) -> Natural:
        """The damped step (1 - rho) self + rho other (eq. 3.4)."""
        return Natural(
            torch.lerp(self.precision, other.precision, rho), torch.lerp(self.linear, other.linear, rho)
        )

    def posterior(self, centre: int = 0) -> tuple[Natural, Gaussian]:
        """The Gaussian with its natural parameters (eqs. 3.1, 3.5).

        ``centre`` is how many members have their means centred; zero, or False: none.
        """
        q = rooted(self.precision, self.linear)
        if not centre:
            return self, q
        q = centred(q, int(centre))
        return Natural(self.precision, (self.precision @ q.m.unsqueeze(-1)).squeeze(-1)), q

    def carried(self, cross: Tensor, L_old: Tensor, L_new: Tensor) -> Natural:
        r"""The same sites under other inducing points (eq. 7.2).

        :math:`T = L_{old}^{-1} K_{old,new} L_{new}^{-\top}`; precisions beyond
        the prior become :math:`T^\top (\cdot) T` and linear parts :math:`T^\top h`.

        Parameters
        ----------
        cross : Tensor of shape (P_old, P_new)
            Covariances of the old inducing points with the new ones.
        """
        T = linalg.solve_lower(L_new, linalg.solve_lower(L_old, cross).mT).mT
        eye_old = torch.eye(T.shape[0], dtype=T.dtype, device=T.device)
        eye_new = torch.eye(T.shape[1], dtype=T.dtype, device=T.device)
        beyond = self.precision - eye_old
        return Natural(T.mT @ beyond @ T + eye_new, self.linear @ T)
