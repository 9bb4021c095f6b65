"""Three ways of keeping and moving q(v_j) = N(m_j, S_j) of a head's classes (eqs. 3.1, 9.3, 9.6).

``NaturalPosterior`` moves q of all classes by damped site steps,
``LazyPosterior`` does so for classes that are many, and in
``GradientPosterior`` q is parameters for an optimiser.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from bayesvm._core.features import Features
from bayesvm._core.gaussian import kl_of_factor
from bayesvm.nn._bound import (
    N_FUNCTIONS,
    BatchTerms,
    Draw,
    PairSites,
    Touched,
    add_pairs,
    all_moments,
    drawn_functions,
    few_classes,
    pair_sums,
    pair_terms,
    rival_of_functions,
    rival_of_moments,
    touched,
)
from bayesvm.nn._devices import from_all

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


class Pending(NamedTuple):
    """Sites of rows, of all processes, that q has not seen yet, and the q they were made under."""

    sites: PairSites
    q: Posterior


class PosteriorState(Protocol):
    """What a head asks of the module that holds q."""

    def ready(self) -> Posterior | None:
        """The posterior for ``terms``, if it does not depend on rows."""
        ...

    def terms(
        self, features: Features, y: Tensor, draw: Draw, q: Posterior | None
    ) -> tuple[BatchTerms, Posterior, Tensor]:
        """Row terms under q, q of the classes that rows touch, and the divergence of all classes."""
        ...

    def advance(
        self, pending: list[Pending], scale: float, weight: Tensor | float, draw: Draw, length: float
    ) -> None:
        """Move q by a step of some length (eq. 9.6).

        ``scale`` makes sums over the rows sums over all data, ``weight`` is that of the KL.
        """
        ...

    def start(self, precision: Tensor, linear: Tensor) -> None:
        """Start from the sums of a ridge regression, (P, P) and (C, P) (eq. 3.6)."""
        ...

    def posterior(self) -> Posterior:
        """The Gaussians of all classes as it is now."""
        ...


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
    return Posterior(m, root, kl_of_factor(m, root), linear)


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


def terms_of_all(features: Features, q: Posterior, y: Tensor, draw: Draw, sampled: bool) -> BatchTerms:
    """Row terms under q of all classes; the rivals of many classes are winners of drawn functions."""
    S = q.S
    with torch.no_grad():
        A, residual = features.A.detach(), features.residual.detach()
        known = None
        if few_classes(*q.m.shape):
            known = all_moments(A, q.m, S)
            s2 = known[1] + residual[:, None] if sampled else None
            rival = rival_of_moments(known[0], s2, y, draw)
        else:
            functions = drawn_functions(q.m, q.root, draw, sampled)
            rival = rival_of_functions(functions, Features(A, residual), y, draw)
        rows = touched(A, q.m, S, torch.stack([y, rival], 1), known)
    return pair_terms(features, q.m, S, rows)


class NaturalPosterior(nn.Module):
    """q of all classes at once, moved by damped site steps beside any optimiser (eqs. 3.4, 9.6).

    Natural parameters are buffers, like the running statistics of a batch normalisation.

    Parameters
    ----------
    n_classes, n_inducing : int
    sampled : bool
        Whether rivals are drawn, or those of the means.
    """

    excess: Tensor
    linear: Tensor

    def __init__(self, n_classes: int, n_inducing: int, sampled: bool) -> None:
        super().__init__()
        self.sampled = sampled
        self.register_buffer("excess", torch.zeros(n_classes, n_inducing, n_inducing))
        self.register_buffer("linear", torch.zeros(n_classes, n_inducing))

    @torch.no_grad()
    def ready(self) -> Posterior:
        """The posterior, as a step takes it."""
        return self.posterior()

    def terms(
        self, features: Features, y: Tensor, draw: Draw, q: Posterior | None
    ) -> tuple[BatchTerms, Posterior, Tensor]:
        """Row terms under q, q itself, and its divergence from the prior."""
        assert q is not None
        return terms_of_all(features, q, y, draw, self.sampled), q, q.kl.sum()

    @torch.no_grad()
    def advance(
        self, pending: list[Pending], scale: float, weight: Tensor | float, draw: Draw, length: float
    ) -> None:
        """The damped step; the weight of the KL is that of what q was and of the prior (eqs. 9.6, 9.7)."""
        parts = zip(*(p.sites for p in pending), strict=True)
        sites = pending[0].sites if len(pending) == 1 else PairSites(*map(torch.cat, parts))
        keep, step = 1.0 - length * weight, length * scale
        # Not a factor on the sums: inductor of torch 2.13 drops the alpha of a product that is added.
        sites = sites._replace(W=step * sites.W, G=step * sites.G)
        precision, linear = pair_sums(sites, self.linear.shape[0])
        self.excess.mul_(keep).add_(precision)
        self.linear.copy_(keep * pending[-1].q.linear + linear)

    @torch.no_grad()
    def start(self, precision: Tensor, linear: Tensor) -> None:
        """Start from the sums of a ridge regression (eq. 3.6)."""
        self.excess.copy_(precision.expand_as(self.excess))
        self.linear.copy_(linear)

    def posterior(self) -> Posterior:
        """The Gaussians of all classes, with centred means."""
        return solved(self.excess, self.linear, centre=True)


class LazyPosterior(nn.Module):
    """The step of ``NaturalPosterior`` without centring, for classes that are many (eq. 9.8).

    Only the classes that a batch touches are factorised. One that no row
    touches only decays, by the same factor for all, so a clock of the sum of
    their logarithms is all it needs to catch up. Which rivals rows get is
    decided by functions that were drawn when their class was touched last.

    Parameters
    ----------
    n_classes, n_inducing, sampled : as for ``NaturalPosterior``
    """

    excess: Tensor
    linear: Tensor
    clock: Tensor
    seen: Tensor
    functions: Tensor
    kl: Tensor

    def __init__(self, n_classes: int, n_inducing: int, sampled: bool) -> None:
        super().__init__()
        self.sampled = sampled
        self.register_buffer("excess", torch.zeros(n_classes, n_inducing, n_inducing))
        self.register_buffer("linear", torch.zeros(n_classes, n_inducing))
        # Logarithms of decays; a small number that must not lose digits to a large one.
        self.register_buffer("clock", torch.zeros((), dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(n_classes, dtype=torch.float64))
        n_functions = N_FUNCTIONS if sampled else 1
        self.register_buffer("functions", torch.zeros(n_classes, n_functions, n_inducing))
        self.register_buffer("kl", torch.zeros(n_classes))

    def ready(self) -> None:
        """Nothing: the classes needed depend on the rows."""
        return

    def terms(
        self, features: Features, y: Tensor, draw: Draw, q: Posterior | None
    ) -> tuple[BatchTerms, Posterior, Tensor]:
        """Row terms under q, q of the touched classes, and the divergence as far as it is known."""
        with torch.no_grad():
            A, residual = features.A.detach(), features.residual.detach()
            rival = rival_of_functions(self.functions, Features(A, residual), y, draw)
            classes = torch.stack([y, rival], 1)
            needed = self._distinct(from_all(classes))
            q = self._caught_up(needed)
            place = torch.zeros_like(self.seen, dtype=torch.long).scatter_(
                0, needed, torch.arange(needed.shape[0], device=y.device)
            )
            place = place[classes]
            rows = _by_root(classes, q.m[place], q.root[place], A)
            kl = self.kl.index_copy(0, needed, q.kl).sum()
        return pair_terms(features, q.m, None, rows), q, kl

    @torch.no_grad()
    def advance(
        self, pending: list[Pending], scale: float, weight: Tensor | float, draw: Draw, length: float
    ) -> None:
        """The damped step of the touched classes (eqs. 9.7, 9.8)."""
        # Made on the device: a number from the host would have to wait for it. A
        # step of length one leaves next to nothing, whose logarithm is finite.
        keep = 1.0 - length * (torch.ones_like(self.clock) * weight)
        self.clock.add_(keep.clamp_min(1e-30).log())
        for _, q in pending:
            assert q.classes is not None
            # A class of an earlier part has decayed already, and does so no further.
            factor = (self.clock - self.seen[q.classes]).exp().to(self.linear.dtype)
            self.excess.index_copy_(0, q.classes, factor[:, None, None] * self.excess[q.classes])
            self.linear.index_copy_(0, q.classes, factor[:, None] * self.linear[q.classes])
            self.seen.index_fill_(0, q.classes, 0.0).index_add_(
                0, q.classes, self.clock.expand(q.classes.shape[0])
            )
            self._remember(q, draw)
        for sites, _ in pending:
            add_pairs(sites, self.excess, self.linear, length * scale)

    @torch.no_grad()
    def start(self, precision: Tensor, linear: Tensor) -> None:
        """Start from the sums of a ridge regression (eq. 3.6)."""
        self.excess.copy_(precision.expand_as(self.excess))
        self.linear.copy_(linear)
        self.seen.copy_(self.clock)

    @torch.no_grad()
    def wake(self, draw: Draw) -> None:
        """Draw functions of all classes, before the first step."""
        self._remember(self.posterior(), draw)

    def posterior(self) -> Posterior:
        """The Gaussians of all classes, exactly as if each had decayed in every step."""
        return self._caught_up(torch.arange(self.seen.shape[0], device=self.seen.device))

    def _caught_up(self, classes: Tensor) -> Posterior:
        factor = (self.clock - self.seen[classes]).exp().to(self.linear.dtype)
        excess = factor[:, None, None] * self.excess[classes]
        return solved(excess, factor[:, None] * self.linear[classes], centre=False)._replace(classes=classes)

    def _remember(self, q: Posterior, draw: Draw) -> None:
        assert q.classes is not None
        self.functions.index_copy_(0, q.classes, drawn_functions(q.m, q.root, draw, self.sampled))
        self.kl.index_copy_(0, q.classes, q.kl)

    def _distinct(self, classes: Tensor) -> Tensor:
        """The classes named, each once, and as many others as make the number known beforehand."""
        C = self.seen.shape[0]
        count = min(C, classes.numel())
        named = torch.zeros(C, device=classes.device).index_fill_(0, classes.reshape(-1), 1.0)
        return named.argsort(descending=True, stable=True)[:count]


def _by_root(classes: Tensor, m: Tensor, root: Tensor, A: Tensor) -> Touched:
    """The two classes of rows, by the roots of their covariances, which need not be multiplied out."""
    turned = (root @ A[:, None, :, None]).squeeze(-1)
    SA = (root.mT @ turned[..., None]).squeeze(-1)
    return Touched(classes, m, SA, torch.linalg.vecdot(m, A[:, None, :]), torch.linalg.vecdot(turned, turned))


class GradientPosterior(nn.Module):
    """q as parameters that backpropagation trains, as in the paper (eq. 9.3).

    Means, and factors of covariances whose diagonals are stored as logarithms.

    Parameters
    ----------
    n_classes, n_inducing : int
    sampled : bool
        Whether rivals are drawn, or those of the means.
    """

    def __init__(self, n_classes: int, n_inducing: int, sampled: bool) -> None:
        super().__init__()
        self.sampled = sampled
        self.mean = nn.Parameter(torch.zeros(n_classes, n_inducing))
        self.raw = nn.Parameter(torch.zeros(n_classes, n_inducing, n_inducing))

    def ready(self) -> Posterior:
        """The posterior, as a step takes it: with gradients."""
        return self.posterior()

    def terms(
        self, features: Features, y: Tensor, draw: Draw, q: Posterior | None
    ) -> tuple[BatchTerms, Posterior, Tensor]:
        """Row terms under q, q itself, and its divergence from the prior, all with gradients."""
        assert q is not None
        return terms_of_all(features, q, y, draw, self.sampled), q, q.kl.sum()

    def advance(
        self, pending: list[Pending], scale: float, weight: Tensor | float, draw: Draw, length: float
    ) -> None:
        """Nothing: the optimiser moves q."""

    @torch.no_grad()
    def start(self, precision: Tensor, linear: Tensor) -> None:
        """Start from the sums of a ridge regression (eq. 3.6)."""
        S = solved(precision[None], torch.zeros_like(linear[:1]), centre=False).S[0]
        L = torch.linalg.cholesky(S.double())
        self.raw.copy_((L.tril(-1) + torch.diag_embed(L.diagonal().log())).expand_as(self.raw))
        self.mean.copy_(linear @ S)

    def posterior(self) -> Posterior:
        """The Gaussians of all classes."""
        L = self.raw.tril(-1) + torch.diag_embed(self.raw.diagonal(dim1=-2, dim2=-1).exp())
        return Posterior(self.mean, L.mT, kl_of_factor(self.mean, L), self.mean)
