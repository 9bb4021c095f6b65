"""Rows of several groups laid out in tiles of one size: what batched products need.

Every shape follows from the number of rows, so nothing waits for a device
to say how large its groups are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Tiles"]

# Slots of a tile, at least and at most, and the share of slots that may stay empty: one in so many.
_FEWEST_SLOTS = 64
_MOST_SLOTS = 1024
_EMPTY_SHARE = 8


@dataclass(frozen=True)
class Tiles:
    """Where each of n items lies in tiles of T slots; all items of a tile are of one group.

    There are n // T + G tiles, enough for any sizes of the groups; slots
    that are left over repeat the first item.

    Attributes
    ----------
    slot : Tensor of shape (n,)
        Slot of each item.
    item : Tensor of shape (n_tiles T,)
        Item in each slot.
    group : Tensor of shape (n_tiles,)
        Group of each tile.
    n_groups, n_tiles : int
    """

    slot: Tensor
    item: Tensor
    group: Tensor
    n_groups: int
    n_tiles: int

    @classmethod
    def of(cls, label: Tensor, order: Tensor, n_groups: int, size: int | None = None) -> Tiles:
        """Tiles of items with these labels, ``order`` being a stable order by label.

        ``size`` is the number of slots of a tile; None: as many as leave few empty.
        """
        n, device = label.shape[0], label.device
        if size is None:
            size = max(_FEWEST_SLOTS, min(_MOST_SLOTS, n // (_EMPTY_SHARE * n_groups)))
        ordered = label.index_select(0, order)
        start = torch.searchsorted(ordered, torch.arange(n_groups + 1, device=device, dtype=label.dtype))
        tiles = (start.diff() + (size - 1)).div(size, rounding_mode="floor")
        end = tiles.cumsum(0)
        n_tiles = n // size + n_groups
        group = torch.searchsorted(end, torch.arange(n_tiles, device=device), right=True)
        # A group's items follow each other from the first slot of its first tile.
        shift = (end - tiles) * size - start[:-1]
        slots = torch.arange(n, device=device) + shift.index_select(0, ordered)
        slot = torch.empty_like(order).scatter_(0, order, slots)
        item = torch.zeros(n_tiles * size, dtype=order.dtype, device=device).scatter_(0, slots, order)
        return cls(slot, item, group.clamp_max_(n_groups - 1), n_groups, n_tiles)

    def gather(self, rows: Tensor, per_row: int = 1) -> Tensor:
        """Rows (N, ...) in their slots, shape (n_tiles, T, ...), where each has ``per_row`` items."""
        index = self.item if per_row == 1 else self.item.div(per_row, rounding_mode="floor")
        return rows.index_select(0, index).unflatten(0, (self.n_tiles, -1))

    def spread(self, values: Tensor) -> Tensor:
        """Values of the items (n,) in their slots and zeros in the others, shape (n_tiles, T)."""
        return values.new_zeros(self.item.shape[0]).scatter_(0, self.slot, values).view(self.n_tiles, -1)

    def back(self, values: Tensor) -> Tensor:
        """Values (n_tiles, T) of the slots as those of the items, shape (n,)."""
        return values.reshape(-1).index_select(0, self.slot)

    def summed(self, values: Tensor) -> Tensor:
        """Sums of values (n_tiles, ...) over the tiles of each group, shape (G, ...).

        A product with indicators, which, unlike adding by index, gives the same
        sums in every run.
        """
        groups = torch.arange(self.n_groups, device=self.group.device)
        indicators = (groups[:, None] == self.group).to(values.dtype)
        return (indicators @ values.flatten(1)).unflatten(1, values.shape[1:])
