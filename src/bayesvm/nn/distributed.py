"""Rows of all processes that train together; with one process, its own."""

from __future__ import annotations

import torch
from torch import Tensor, distributed

__all__ = ["from_all", "rank_and_size"]


def rank_and_size() -> tuple[int, int]:
    """Number of this process, and how many there are."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def from_all(x: Tensor) -> Tensor:
    """The rows of x of every process, one after the other; all must have as many.

    Rows are gathered, not sums over rows: B (P + 4) numbers a process instead
    of C (P^2 + P), and every process then takes the same step.
    """
    _, size = rank_and_size()
    if size == 1:
        return x
    x = x.contiguous()
    parts = [torch.empty_like(x) for _ in range(size)]
    distributed.all_gather(parts, x)
    return torch.cat(parts)
