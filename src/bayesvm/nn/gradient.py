"""q as parameters that backpropagation trains, as in the paper (eq. 9.3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bayesvm.core.covariance import Features
from bayesvm.nn import pair_terms as pairs
from bayesvm.nn.noise import Draw
from bayesvm.nn.pair_terms import PairTerms, all_moments, touched
from bayesvm.nn.posterior import Pending, Posterior, divergence, solved
from bayesvm.nn.rivals import N_FUNCTIONS, deviations, rival_of_functions, rival_of_moments

__all__ = ["Gradient"]


class Gradient(nn.Module):
    """Means, and factors of covariances whose diagonals are stored as logarithms.

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
    ) -> tuple[PairTerms, Posterior, Tensor]:
        """Row terms under q, q itself, and its divergence from the prior, all with gradients."""
        assert q is not None
        S = q.S
        with torch.no_grad():
            A, residual = features.A.detach(), features.residual.detach()
            known = None
            if S.numel() <= pairs.DENSE_NUMBERS:
                known = all_moments(A, q.m, S)
                s2 = known[1] + residual[:, None] if self.sampled else None
                rival = rival_of_moments(known[0], s2, y, draw)
            else:
                functions = q.m[:, None, :]
                if self.sampled:
                    functions = functions + deviations(q.root, draw.table, draw.step, N_FUNCTIONS)
                rival = rival_of_functions(functions, Features(A, residual), y, draw)
            rows = touched(A, q.m, S, torch.stack([y, rival], 1), known)
        return pairs.pair_terms(features, q.m, S, rows), q, q.kl.sum()

    def advance(
        self, pending: list[Pending], scale: float, weight: Tensor | float, draw: Draw, length: float
    ) -> None:
        """Nothing: the optimiser moves q."""

    @torch.no_grad()
    def start(self, A: Tensor, target: Tensor) -> None:
        """Start from a ridge regression on targets (eq. 3.6)."""
        S = solved((0.5 * A.mT @ A)[None], 0.5 * A.new_zeros(1, A.shape[1]), centre=False).S[0]
        L = torch.linalg.cholesky(S.double())
        self.raw.copy_((L.tril(-1) + torch.diag_embed(L.diagonal().log())).expand_as(self.raw))
        self.mean.copy_(0.5 * target.mT @ A @ S)

    def posterior(self) -> Posterior:
        """The Gaussians of all classes."""
        L = self.raw.tril(-1) + torch.diag_embed(self.raw.diagonal(dim1=-2, dim2=-1).exp())
        return Posterior(self.mean, L.mT, divergence(self.mean, L), self.mean)
