"""Two classes with one latent function, their difference, for likelihoods that see differences only."""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm.core.likelihoods.base import RowTerms

__all__ = ["collected", "dealt", "dealt_latents"]


def dealt(F: Tensor, s2: Tensor) -> tuple[Tensor, Tensor]:
    """Moments (N, 1) of the difference as those of two classes, (N, 2) (eq. 7.1)."""
    return torch.cat([-0.5 * F, 0.5 * F], 1), (0.5 * s2).expand(-1, 2)


def dealt_latents(f: Tensor) -> Tensor:
    """Latents (..., 1) of the difference as those of two classes, (..., 2)."""
    return torch.cat([-0.5 * f, 0.5 * f], -1)


def collected(terms: RowTerms) -> RowTerms:
    """Terms of two classes as those of their difference, by the chain rule of eq. 7.1."""
    value, slope, W = terms
    return RowTerms(value, 0.5 * (slope[:, 1:] - slope[:, :1]), 0.5 * (W[:, 1:] + W[:, :1]))
