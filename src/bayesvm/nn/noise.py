"""Normal numbers that are known by what they are for, not by when they are drawn."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Draw", "noise_table", "normals"]

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


class Draw(NamedTuple):
    """What makes the random choices of a batch.

    Attributes
    ----------
    table : Tensor
    step : Tensor of shape ()
    first : int
        Place of the first row in the whole batch, over parts and processes.
    noise : Tensor of shape (N, C) or None
        The normal numbers of its rows, if they were made beforehand.
    """

    table: Tensor
    step: Tensor
    first: int
    noise: Tensor | None = None

    def normals(self, count: int, width: int) -> Tensor:
        """Those of ``count`` rows, shape (count, width)."""
        if self.noise is not None and self.noise.shape == (count, width):
            return self.noise
        return normals(self.table, self.step, self.first, count, width)
