"""Several likelihoods of the same labels, each with latent functions of its own (section 11)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bayesvm._core.likelihoods.base import Likelihood, RowTerms


@dataclass(frozen=True)
class Committee:
    r"""log p(y | f) = sum_m log p_m(y | f_m), the latents of all members side by side (eq. 11.1).

    The members share nothing but rows, kernel and inducing points, so the bound
    and the posterior are those of each alone, and one computation serves all. The first
    speaks for the latents of the model; the kernel is learned under the last.

    Parameters
    ----------
    members : tuple of Likelihood
        Each describes the classes by the same number of latent functions.
    """

    members: tuple[Likelihood, ...]

    @property
    def shift_invariant(self) -> bool:
        """Whether adding the same to all latents of a member changes nothing."""
        return all(member.shift_invariant for member in self.members)

    def n_latents(self, n_classes: int) -> int:
        return sum(member.n_latents(n_classes) for member in self.members)

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        parts = f.chunk(len(self.members), -1)
        terms = [member.log_likelihood(y, part) for member, part in zip(self.members, parts, strict=True)]
        return torch.stack(terms).sum(0)

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        n = len(self.members)
        terms = [
            member.row_terms(y, mean, variance)
            for member, mean, variance in zip(self.members, F.chunk(n, 1), s2.chunk(n, 1), strict=True)
        ]
        value, slope, W = zip(*terms, strict=True)
        return RowTerms(torch.stack(value).sum(0), torch.cat(slope, 1), torch.cat(W, 1))


def members_of(likelihood: Likelihood) -> tuple[Likelihood, ...]:
    """The members of a committee; any other likelihood is its own only one."""
    return likelihood.members if isinstance(likelihood, Committee) else (likelihood,)
