"""Choosing inducing points: weighted k-means on a content-keyed sample."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["choose_inducing", "distinct_rows"]

_ROWS_PER_POINT = 32
_LLOYD_STEPS = 10


def distinct_rows(X: Tensor) -> Tensor:
    """Indices of the first occurrence of every distinct row, in order."""
    _, inverse = torch.unique(X, dim=0, return_inverse=True)
    n = int(inverse.max()) + 1
    position = torch.arange(X.shape[0], device=X.device)
    first = position.new_full((n,), X.shape[0]).scatter_reduce_(0, inverse, position, "amin")
    return first.sort().values


def choose_inducing(X: Tensor, weight: Tensor, n_inducing: int) -> Tensor:
    """Inducing points for canonical rows, shape (P, D) with P <= ``n_inducing``.

    All distinct rows if there are that few, and the sparse model is then the
    dense one; otherwise centres of weighted k-means. Canonical rows come in
    random order, so the first ones are a random sample and a random start.
    """
    sample, w = (
        X[: max(4096, _ROWS_PER_POINT * n_inducing)],
        weight[: max(4096, _ROWS_PER_POINT * n_inducing)],
    )
    distinct = distinct_rows(sample)
    Z = sample[distinct[:n_inducing]].clone()
    if distinct.numel() <= n_inducing:
        return Z
    norm = sample.square().sum(1)
    for _ in range(_LLOYD_STEPS):
        # |x|^2 is the same for all centres, so it plays no part in the choice;
        # rounding keeps exact ties exact whatever the order of summation.
        score = torch.addmm(Z.square().sum(1), sample, Z.mT, alpha=-2.0).add_(norm[:, None])
        nearest = torch.round(score, decimals=9).argmin(1)
        mass = torch.zeros(Z.shape[0], dtype=X.dtype, device=X.device).index_add_(0, nearest, w)
        total = torch.zeros_like(Z).index_add_(0, nearest, sample * w[:, None])
        Z = torch.where(mass[:, None] > 0, total / mass.clamp_min(torch.finfo(X.dtype).tiny)[:, None], Z)
    return Z
