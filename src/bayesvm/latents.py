"""Latent moments of rows under a model, and how they are dealt to classes."""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm.core import gaussian
from bayesvm.core.covariance import Features
from bayesvm.model import LoadedModel

__all__ = ["dealt_latents", "latent_moments", "latents_of_classes", "spread_of_draws"]


def latents_of_classes(F: Tensor, s2: Tensor) -> tuple[Tensor, Tensor]:
    """Moments per class; two classes share one function of their difference (eq. 7.1).

    Predictions depend on differences alone, so the difference g is dealt
    evenly: means -g/2 and g/2, variances Var(g)/2 each.
    """
    if F.shape[1] > 1:
        return F, s2
    return torch.cat([-0.5 * F, 0.5 * F], 1), (0.5 * s2).expand(-1, 2)


def dealt_latents(f: Tensor) -> Tensor:
    """Latents per class (..., C) for functions (..., J): a difference g becomes -g/2 and g/2."""
    return f if f.shape[-1] > 1 else torch.cat([-0.5 * f, 0.5 * f], -1)


def spread_of_draws(variance: Tensor, centred: bool) -> Tensor:
    """Variances of independent functions whose differences vary as those of the draws (eq. 8.38).

    Centring takes the share 1/J of the variance of J independent functions away.
    """
    J = variance.shape[-1]
    return variance * (J / (J - 1)) if centred and J > 1 else variance


def latent_moments(model: LoadedModel, features: Features) -> tuple[Tensor, Tensor]:
    """Means and variances per class, shape (n, C), from draws where there are any, else from q."""
    A, residual = features
    if model.draws is None:
        F, V = gaussian.mean(model.q, A), gaussian.variance(model.q, A)
    else:
        mean = model.draws.mean(0)
        F = A @ mean.mT
        V = torch.stack([(A @ d.mT).square().mean(1) for d in (model.draws - mean).unbind(1)], 1)
        V = spread_of_draws(V, model.model.centred)
    s2 = V + residual[:, None]
    return latents_of_classes(F, s2.clamp_min(torch.finfo(s2.dtype).tiny ** 0.5))
