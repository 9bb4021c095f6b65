"""Latent moments of rows under a model, and how they are dealt to classes."""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm.core import gaussian
from bayesvm.core.likelihoods.difference import dealt as latents_of_classes
from bayesvm.core.likelihoods.difference import dealt_latents
from bayesvm.model import LoadedModel

__all__ = ["common_part", "dealt_latents", "latent_moments", "latents_of_classes", "spread_of_draws"]


def spread_of_draws(variance: Tensor, centred: bool) -> Tensor:
    """Variances of functions before their draws were centred, if they were (eq. 8.38).

    Centring takes the share 1/J of the variance of J independent functions
    away. A part common to all functions brings it back and leaves their
    differences as they are; ``common_part`` draws it.
    """
    J = variance.shape[-1]
    return variance + variance.mean(-1, keepdim=True) / (J - 1) if centred and J > 1 else variance


def common_part(deviations: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    """Draws (P, n_samples) of what all J functions of centred draws have in common, mean zero.

    Deviations (S, J, P) of one function or another, taken at random, have the
    mean covariance of the functions; over J - 1 it is the one in ``spread_of_draws``.
    """
    S, J, _ = deviations.shape
    draw = torch.randint(S, (n_samples,), generator=generator)
    function = torch.randint(J, (n_samples,), generator=generator)
    return deviations[draw.to(deviations.device), function.to(deviations.device)].mT / (J - 1) ** 0.5


def latent_moments(
    model: LoadedModel, rows: Tensor, roots: gaussian.Roots | None = None
) -> tuple[Tensor, Tensor]:
    """Means and variances per class, shape (n, C), of standardised rows.

    From draws where there are any, else from q, with the local part if there is one.
    ``roots`` are those of q, for calls with many rows.
    """
    A, residual = model.features(rows)
    if model.draws is None:
        F = gaussian.mean(model.q, A)
        V = gaussian.variance(model.q, A) if roots is None else gaussian.root_variance(roots, A)
    else:
        mean = model.draws.mean(0)
        F = A @ mean.mT
        V = torch.stack([(A @ d.mT).square().mean(1) for d in (model.draws - mean).unbind(1)], 1)
        V = spread_of_draws(V, model.model.centred)
    s2 = V + residual[:, None]
    if model.local is not None:
        F = F + model.local.mean(rows)
    return latents_of_classes(F, s2.clamp_min(torch.finfo(s2.dtype).tiny ** 0.5))
