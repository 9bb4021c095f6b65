"""q of many classes: only those that a batch touches are factorised; the others decay when next needed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bayesvm.core.covariance import Features
from bayesvm.nn.distributed import from_all
from bayesvm.nn.noise import Draw
from bayesvm.nn.pair_terms import PairTerms, Touched, add_pairs, pair_terms
from bayesvm.nn.posterior import Pending, Posterior, solved
from bayesvm.nn.rivals import N_FUNCTIONS, deviations, rival_of_functions

__all__ = ["LazyNatural"]


class LazyNatural(nn.Module):
    """The step of ``Natural`` without centring, for classes that are many (eq. 9.8).

    A class that no row touches only decays, by the same factor for all, so a
    clock of the sum of their logarithms is all it needs to catch up. Which
    rivals rows get is decided by functions that were drawn when their class
    was touched last.

    Parameters
    ----------
    n_classes, n_inducing, sampled : as for ``Natural``
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
        """Nothing: which classes to look at depends on the rows."""
        return

    def terms(
        self, features: Features, y: Tensor, draw: Draw, q: Posterior | None
    ) -> tuple[PairTerms, Posterior, Tensor]:
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
    def start(self, A: Tensor, target: Tensor) -> None:
        """Start from a ridge regression on targets (eq. 3.6)."""
        self.excess.copy_((0.5 * A.mT @ A).expand_as(self.excess))
        self.linear.copy_(0.5 * target.mT @ A)
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
        functions = q.m[:, None, :]
        if self.sampled:
            functions = functions + deviations(q.root, draw.table, draw.step, N_FUNCTIONS)
        self.functions.index_copy_(0, q.classes, functions)
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
