"""Two classes with one latent function, their difference, for likelihoods that see differences only."""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm.core.likelihoods.base import RowTerms

__all__ = ["collected", "dealt", "dealt_latents"]


def dealt(F: Tensor, s2: Tensor) -> tuple[Tensor, Tensor]:
    """Moments per class (N, C): those of a difference (N, 1) are dealt to two, others stay (eq. 7.1).

    Predictions depend on differences alone, so a difference g is dealt
    evenly: means -g/2 and g/2, variances Var(g)/2 each.
    """
    if F.shape[1] > 1:
        return F, s2
    return torch.cat([-0.5 * F, 0.5 * F], 1), (0.5 * s2).expand(-1, 2)


def dealt_latents(f: Tensor) -> Tensor:
    """Latents per class (..., C) for functions (..., J): a difference g becomes -g/2 and g/2."""
    return f if f.shape[-1] > 1 else torch.cat([-0.5 * f, 0.5 * f], -1)


def collected(terms: RowTerms) -> RowTerms:
    """Terms of two classes as those of their difference, by the chain rule of eq. 7.1."""
    value, slope, W = terms
    return RowTerms(value, 0.5 * (slope[:, 1:] - slope[:, :1]), 0.5 * (W[:, 1:] + W[:, :1]))
