"""What the head's ways of keeping q have in common."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bayesvm.core.covariance import Features
from bayesvm.nn.pair_terms import PairSites, PairTerms

__all__ = ["Draw", "Keeper", "Pending", "Posterior", "divergence", "solved"]


class Posterior(NamedTuple):
    r"""q of some classes (eq. 3.1).

    Attributes
    ----------
    m : Tensor of shape (K, P)
    S : Tensor of shape (K, P, P)
        Covariances.
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
    S: Tensor
    root: Tensor
    kl: Tensor
    linear: Tensor
    classes: Tensor | None = None


class Draw(NamedTuple):
    """What makes the random choices of a batch.

    Attributes
    ----------
    table : Tensor
        See ``noise``.
    step : Tensor of shape ()
    first : int
        Place of the first row in the whole batch, over parts and processes.
    """

    table: Tensor
    step: Tensor
    first: int


class Pending(NamedTuple):
    """Sites of rows, of all processes, that q has not seen yet, and the q they were made under."""

    sites: PairSites
    q: Posterior


class Keeper(Protocol):
    """A way of keeping q."""

    def terms(self, features: Features, y: Tensor, draw: Draw) -> tuple[PairTerms, Posterior, Tensor]:
        """Row terms under q, q of the classes that rows touch, and the divergence of all classes."""
        ...

    def advance(self, pending: list[Pending], scale: float, weight: Tensor | float, draw: Draw) -> None:
        """Move q; ``scale`` makes sums over the rows sums over all data, ``weight`` is that of the KL."""
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
    # The transpose from the right: a third of the time of the plain way on a CPU.
    root = torch.linalg.solve_triangular(R.mT, eye.expand_as(R), upper=True, left=False).mT
    m = (root.mT @ (root @ linear.unsqueeze(-1))).squeeze(-1)
    m = m.masked_fill((info != 0)[:, None], torch.nan)
    if centre:
        common = m.mean(0)
        m = m - common
        linear = linear - precision @ common
    return Posterior(m, root.mT @ root, root, divergence(m, root), linear)
