"""One against the rest: a binary likelihood for every class, all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bayesvm.core.likelihoods.base import Likelihood, RowTerms
from bayesvm.core.likelihoods.scale_mixture import DrawnSites, ScaleMixture

__all__ = ["OneVsRest"]


@dataclass(frozen=True)
class OneVsRest:
    r"""log p(y | f) = sum_j log p_j([y = j] | f_j): C binary problems that share nothing but rows (eq. 8.1).

    Parameters
    ----------
    binary : Likelihood
        A likelihood of two classes with one latent function.
    """

    binary: Likelihood
    shift_invariant: ClassVar[bool] = False

    def n_latents(self, n_classes: int) -> int:
        return n_classes

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        """The binary terms of all rows and classes in one call."""
        is_own = _is_own(y, F.shape[1]).reshape(-1)
        value, slope, W = self.binary.row_terms(is_own, F.reshape(-1, 1), s2.reshape(-1, 1))
        return RowTerms(value.reshape(F.shape).sum(1), slope.reshape(F.shape), W.reshape(F.shape))

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        is_own = _is_own(y, f.shape[-1]).reshape(-1)
        flat = f.reshape(*f.shape[:-2], -1, 1)
        return self.binary.log_likelihood(is_own, flat).reshape(f.shape).sum(-1)

    def drawn_sites(self, y: Tensor, f: Tensor, weight: Tensor, generator: torch.Generator) -> DrawnSites:
        """Those of the binary problems; the binary likelihood must be a scale mixture itself."""
        if not isinstance(self.binary, ScaleMixture):
            raise TypeError(f"{type(self.binary).__name__} is not a scale mixture of Gaussians")
        C = f.shape[-1]
        flat, is_own = f.reshape(*f.shape[:-2], -1, 1), _is_own(y, C).reshape(-1)
        sites = self.binary.drawn_sites(is_own, flat, weight.repeat_interleave(C), generator)
        return DrawnSites(sites.target.reshape(f.shape), sites.variance.reshape(f.shape))


def _is_own(y: Tensor, n_classes: int) -> Tensor:
    """1 where the column is a row's own class, 0 elsewhere, shape (N, C)."""
    return (y[:, None] == torch.arange(n_classes, device=y.device)).long()
