"""q of all classes at once, moved by damped site steps beside any optimiser (eqs. 3.4, 9.6)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bayesvm.core.covariance import Features
from bayesvm.nn.noise import Draw
from bayesvm.nn.pair_terms import PairSites, PairTerms, all_moments, pair_sums, pair_terms, touched
from bayesvm.nn.posterior import Pending, Posterior, solved
from bayesvm.nn.rivals import rival_of_moments

__all__ = ["Natural"]


class Natural(nn.Module):
    """Natural parameters as buffers, like the running statistics of a batch normalisation.

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
    ) -> tuple[PairTerms, Posterior, Tensor]:
        """Row terms under q, q itself, and its divergence from the prior."""
        assert q is not None
        with torch.no_grad():
            A, S = features.A.detach(), q.S
            known = all_moments(A, q.m, S)
            s2 = known[1] + features.residual[:, None] if self.sampled else None
            rival = rival_of_moments(known[0], s2, y, draw)
            rows = touched(A, q.m, S, torch.stack([y, rival], 1), known)
        return pair_terms(features, q.m, S, rows), q, q.kl.sum()

    @torch.no_grad()
    def advance(
        self, pending: list[Pending], scale: float, weight: Tensor | float, draw: Draw, length: float
    ) -> None:
        """The damped step; the weight of the KL is that of what q was and of the prior (eq. 9.7)."""
        parts = zip(*(p.sites for p in pending), strict=True)
        sites = pending[0].sites if len(pending) == 1 else PairSites(*map(torch.cat, parts))
        keep, step = 1.0 - length * weight, length * scale
        # Not a factor on the sums: inductor of torch 2.13 drops the alpha of a product that is added.
        sites = sites._replace(W=step * sites.W, G=step * sites.G)
        precision, linear = pair_sums(sites, self.linear.shape[0])
        self.excess.mul_(keep).add_(precision)
        self.linear.copy_(keep * pending[-1].q.linear + linear)

    @torch.no_grad()
    def start(self, A: Tensor, target: Tensor) -> None:
        """Start from a ridge regression on targets (eq. 3.6)."""
        self.excess.copy_((0.5 * A.mT @ A).expand_as(self.excess))
        self.linear.copy_(0.5 * target.mT @ A)

    def posterior(self) -> Posterior:
        """The Gaussians of all classes, with centred means."""
        return solved(self.excess, self.linear, centre=True)
