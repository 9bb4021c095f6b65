"""What the head's ways of keeping q have in common."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bayesvm.core.covariance import Features
from bayesvm.nn.noise import Draw
from bayesvm.nn.pair_terms import PairSites, PairTerms

__all__ = ["Keeper", "Pending", "Posterior", "Ready", "divergence", "inverse_by_halves", "solved"]


# Systems up to this size are solved rather than split.
_SOLVED = 64


class Posterior(NamedTuple):
    r"""q of some classes (eq. 3.1).

    Attributes
    ----------
    m : Tensor of shape (K, P)
    root : Tensor of shape (K, P, P)
        Triangular, with :math:`S_j = Q_j^\top Q_j`.
    kl : Tensor of shape (K,)
        Divergences from the prior.
    linear : Tensor of shape (K, P)
        Linear natural parameters, those of m.
    classes : Tensor of shape (K,) or None
        Which classes these are; None: all, in order.
    """

    m: Tensor
    root: Tensor
    kl: Tensor
    linear: Tensor
    classes: Tensor | None = None

    @property
    def S(self) -> Tensor:
        """Covariances, shape (K, P, P); computed when asked for."""
        return self.root.mT @ self.root


class Ready(NamedTuple):
    """What a step needs and can be had without its rows.

    Attributes
    ----------
    M : Tensor of shape (P, P)
        Inverse factor of the inducing points (eq. 9.2).
    q : Posterior or None
        None where only the classes that rows touch are looked at.
    noise : Tensor or None
        See ``Draw``.
    """

    M: Tensor
    q: Posterior | None
    noise: Tensor | None = None


class Pending(NamedTuple):
    """Sites of rows, of all processes, that q has not seen yet, and the q they were made under."""

    sites: PairSites
    q: Posterior


class Keeper(Protocol):
    """A way of keeping q."""

    def ready(self) -> Posterior | None:
        """The posterior for ``terms``, if it can be had without rows."""
        ...

    def terms(
        self, features: Features, y: Tensor, draw: Draw, q: Posterior | None
    ) -> tuple[PairTerms, Posterior, Tensor]:
        """Row terms under q, q of the classes that rows touch, and the divergence of all classes."""
        ...

    def advance(
        self, pending: list[Pending], scale: float, weight: Tensor | float, draw: Draw, length: float
    ) -> None:
        """Move q by a step of some length (eq. 9.6).

        ``scale`` makes sums over the rows sums over all data, ``weight`` is that of the KL.
        """
        ...

    def start(self, A: Tensor, target: Tensor) -> None:
        """Start from a ridge regression on targets (N, C) (eq. 3.6)."""
        ...

    def posterior(self) -> Posterior:
        """The Gaussians of all classes as it is now."""
        ...


def divergence(m: Tensor, root: Tensor) -> Tensor:
    """KL of every class from the prior, for covariances with triangular roots (eq. 1.5)."""
    flat = root.flatten(1)
    size = torch.linalg.vecdot(flat, flat) + torch.linalg.vecdot(m, m)
    log_det = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 0.5 * (size - m.shape[-1]) - log_det


def solved(excess: Tensor, linear: Tensor, centre: bool) -> Posterior:
    """Gaussians with precisions I + ``excess`` and these linear parts, centred if asked (eqs. 3.1, 3.5).

    In the precision of the sums: a precision is at least I, and single
    precision was measured to be enough up to ten million rows (docs/nn.md).
    Nothing waits for the device: where a precision is not positive definite
    the means become NaN, which the head reports.
    """
    eye = torch.eye(excess.shape[-1], dtype=excess.dtype, device=excess.device)
    # Rounding of the sums must not outweigh the prior.
    size = excess.diagonal(dim1=-2, dim2=-1).mean(-1) * torch.finfo(excess.dtype).eps
    precision = excess + (1.0 + size)[:, None, None] * eye
    R, info = torch.linalg.cholesky_ex(precision)
    root = inverse_lower(R)
    m = (root.mT @ (root @ linear.unsqueeze(-1))).squeeze(-1)
    m = m.masked_fill((info != 0)[:, None], torch.nan)
    if centre:
        common = m.mean(0)
        m = m - common
        linear = linear - precision @ common
    return Posterior(m, root, divergence(m, root), linear)


def inverse_lower(L: Tensor) -> Tensor:
    """Inverses of lower triangular matrices."""
    return inverse_by_halves(L) if L.is_cuda else _inverse_by_solving(L)


def _inverse_by_solving(L: Tensor) -> Tensor:
    eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    # The transpose from the right: a third of the time of the plain way on a CPU.
    return torch.linalg.solve_triangular(L.mT, eye.expand_as(L), upper=True, left=False).mT


def inverse_by_halves(L: Tensor) -> Tensor:
    """Inverses of lower triangular matrices, by products where they are large.

    On a GPU a solver for many small systems is several times slower than
    products of the same size.
    """
    half, odd = divmod(L.shape[-1], 2)
    if odd or L.shape[-1] <= _SOLVED:
        return _inverse_by_solving(L)
    upper, lower = inverse_by_halves(torch.stack([L[..., :half, :half], L[..., half:, half:]])).unbind()
    between = lower @ (L[..., half:, :half] @ upper)
    inverse = torch.zeros_like(L)
    inverse[..., :half, :half] = upper
    inverse[..., half:, half:] = lower
    inverse[..., half:, :half] = -between
    return inverse
