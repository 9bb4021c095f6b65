"""Normal numbers that are known by what they are for, not by when they are drawn."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["noise_table", "normals"]

# A power of two, so that a bit mask takes the place of a division.
_SIZE = 2**17


def noise_table(seed: int) -> Tensor:
    """Standard normal numbers that every use of ``normals`` takes a stretch of."""
    return torch.randn(_SIZE, generator=torch.Generator().manual_seed(seed))


def normals(table: Tensor, step: Tensor, first: int, count: int, width: int) -> Tensor:
    """Standard normal numbers for keys ``first .. first + count - 1`` in one step, shape (count, width).

    A generator would give a row other numbers when its batch is split, and
    its state would have to travel to other processes. Here step and key are
    hashed to a place in a table, on the device.
    """
    key = torch.arange(first, first + count, device=table.device) + (step << 24)
    place = ((key * 0x1E3779B97F4A7C15) >> 33)[:, None] + torch.arange(width, device=table.device)
    return table[place & (_SIZE - 1)]
