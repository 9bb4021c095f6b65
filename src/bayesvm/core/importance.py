"""Leaving out rows by weighting draws: Pareto-smoothed importance sampling (eq. 8.39).

Vehtari, Simpson, Gelman, Yao and Gabry (2024), with the estimate of the
Pareto shape by Zhang and Stephens (2009). All rows are treated at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["RELIABLE_SHAPE", "SmoothedWeights", "resampled", "smoothed_weights"]

# Beyond this shape no affordable number of draws would do.
RELIABLE_SHAPE = 0.7
_FEWEST_TAIL = 5
# With a tail too short to judge, no draw may have more than this share.
_LARGEST_SHARE = 0.1
_PRIOR_SHAPE, _PRIOR_DRAWS = 0.5, 10.0


class SmoothedWeights(NamedTuple):
    """Weights of draws, and how far they can be trusted.

    Attributes
    ----------
    weight : Tensor of shape (S, N)
        Sum to one over draws.
    shape : Tensor of shape (N,)
        Of the Pareto distribution that fits the largest ratios; below 0.7 is good.
    """

    weight: Tensor
    shape: Tensor


def smoothed_weights(log_ratio: Tensor) -> SmoothedWeights:
    """Weights proportional to exp(log_ratio) (S, N), their tails replaced by expected order statistics."""
    S = log_ratio.shape[0]
    x = log_ratio - log_ratio.amax(0)
    length = math.ceil(min(S / 5, 3.0 * math.sqrt(S)))
    if length < _FEWEST_TAIL:
        weight = torch.softmax(x, 0)
        return SmoothedWeights(weight, _shape_without_tail(weight))
    ordered, order = x.sort(0)
    floor = math.log(torch.finfo(x.dtype).tiny)
    cut = ordered[-length - 1].clamp_min(floor).exp()
    excess = ordered[-length:].exp() - cut
    counted = excess > 0.0
    n = counted.sum(0)
    shape, scale = _pareto(excess, counted, n)
    # Expected order statistics of as many draws as exceed the cut.
    rank = (counted.cumsum(0).to(x) - 0.5).clamp_min(0.0) / n.clamp_min(1)
    smooth = cut + _pareto_quantile(rank, shape, scale)
    usable = counted & (n >= _FEWEST_TAIL) & shape.isfinite()
    tail = torch.where(usable, smooth.clamp_max(1.0).log(), ordered[-length:])
    x = x.scatter(0, order[-length:], tail)
    weight = torch.softmax(x, 0)
    return SmoothedWeights(weight, torch.where(n >= _FEWEST_TAIL, shape, _shape_without_tail(weight)))


def resampled(weight: Tensor, n_draws: int) -> Tensor:
    """Indices of draws, (n_draws, N), that occur as often as their weights (S, N) say, evenly spread."""
    steps = (torch.arange(n_draws, device=weight.device).to(weight) + 0.5) / n_draws
    filled = weight.cumsum(0).mT.contiguous()
    places = (steps * filled[:, -1:]).contiguous()
    return torch.searchsorted(filled, places).clamp_max(weight.shape[0] - 1).mT


def _shape_without_tail(weight: Tensor) -> Tensor:
    """Nearly equal weights need no tail; otherwise nothing is known."""
    fine = weight.amax(0) <= _LARGEST_SHARE
    return torch.where(fine, torch.zeros_like(weight[0]), torch.full_like(weight[0], torch.inf))


def _pareto(excess: Tensor, counted: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """Shape and scale of generalised Pareto distributions, one for the counted numbers of each column."""
    M = excess.shape[0]
    some = n.clamp_min(1)
    points = 30 + some.to(torch.float64).sqrt().long()  # of the grid over b, as many as the numbers need
    grid = torch.arange(1, int(points.max()) + 1, device=n.device)[:, None].to(excess)
    inside = grid <= points
    # The first quartile of the counted numbers, which come last.
    place = (M - some + (some / 4 + 0.5).long() - 1).clamp(0, M - 1)
    quartile = excess.gather(0, place[None]).clamp_min(torch.finfo(excess.dtype).tiny)
    largest = excess[-1:].clamp_min(torch.finfo(excess.dtype).tiny)
    b = (1.0 - (points / (grid - 0.5)).sqrt()) / (3.0 * quartile) + 1.0 / largest
    b = torch.where(inside, b, torch.zeros_like(b))

    def mean_log(b: Tensor) -> Tensor:
        logs = torch.log1p(-b[:, None] * torch.where(counted, excess, torch.zeros_like(excess)))
        return logs.sum(1) / some

    k = mean_log(b)
    score = n * ((-b / k).log() - k - 1.0)
    score = torch.where(inside & score.isfinite(), score, torch.full_like(score, -torch.inf))
    share = torch.softmax(score, 0)
    share = torch.where(share >= 10.0 * torch.finfo(share.dtype).eps, share, torch.zeros_like(share))
    mean_b = ((b * share).sum(0) / share.sum(0))[None]
    k = mean_log(mean_b)[0]
    scale = -k / mean_b[0]
    # A little prior keeps short tails from extremes.
    return (n * k + _PRIOR_DRAWS * _PRIOR_SHAPE) / (n + _PRIOR_DRAWS), scale


def _pareto_quantile(p: Tensor, shape: Tensor, scale: Tensor) -> Tensor:
    safe = torch.where(shape.abs() < 1e-12, torch.ones_like(shape), shape)
    curved = torch.expm1(-safe * torch.log1p(-p)) / safe
    return scale * torch.where(shape.abs() < 1e-12, -torch.log1p(-p), curved)
