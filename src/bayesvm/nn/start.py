"""Where inducing points and length scale start: from features of a first pass."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bayesvm.nn.errors import HeadError

__all__ = ["first_points", "median_distance"]

_LLOYD_STEPS = 5
_MOST_ROWS = 8192
_DISTANCE_ROWS = 1024


def first_points(X: Tensor, n_points: int, seed: int) -> Tensor:
    """Centres of a few steps of k-means, shape (P, D), on the device of the rows.

    Where rows are fewer than points, points between two random rows fill up.
    """
    generator = torch.Generator().manual_seed(seed)
    N = X.shape[0]
    if n_points > N:
        pairs = torch.randint(N, (2, n_points - N), generator=generator).to(X.device)
        share = torch.rand(n_points - N, 1, generator=generator).to(X)
        X = torch.cat([X, torch.lerp(X[pairs[0]], X[pairs[1]], share)])
    X = X[torch.randperm(X.shape[0], generator=generator)[:_MOST_ROWS].to(X.device)]
    Z = X[:n_points].clone()
    for _ in range(_LLOYD_STEPS if n_points < N else 0):
        nearest = torch.addmm(Z.square().sum(1), X, Z.mT, alpha=-2.0).argmin(1)
        count = X.new_zeros(n_points).index_add_(0, nearest, torch.ones_like(X[:, 0]))
        total = torch.zeros_like(Z).index_add_(0, nearest, X)
        Z = torch.where(count[:, None] > 0, total / count.clamp_min(1.0)[:, None], Z)
    return Z


def median_distance(X: Tensor) -> float:
    """Median distance of two rows.

    Raises
    ------
    HeadError
        If features are not finite, or do not tell rows apart.
    """
    if X.shape[0] < 2:
        raise HeadError(
            "the head starts from the features of a first batch, and one row is not enough: pass more "
            "rows to initialise()"
        )
    median = float(torch.pdist(X[:_DISTANCE_ROWS].double()).median())
    if not math.isfinite(median):
        raise HeadError(
            "the network's features are not finite on the first rows: check the inputs (scaled? any NaN?) "
            "and the network's initialisation"
        )
    if median <= 1e-6 * max(1.0, float(X.abs().max())):
        raise HeadError(
            "the network gives (nearly) the same features to all of the first rows, so there is nothing to "
            "start from: check that inputs differ and that its last activation is not dead, or leave that "
            "activation out"
        )
    return median
