"""Rows that touch only a few classes each, sorted by class so that work does not grow with C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from bayesvm._core.gaussian import Roots
from bayesvm._core.sites import Statistics

# --- Rows of several groups laid out in tiles of one size: what batched products need.


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


# Numbers in the features of pairs that are treated at once: a megabyte, which a cache holds.
_PIECE_NUMBERS = 131_072
_FEWEST_PAIRS = 256


class Pairs(Protocol):
    """Pairs of rows and classes, class by class."""

    def moments(self, q: Roots) -> tuple[Tensor, Tensor]:
        """Means a_n^T m_j and explained variances a_n^T S_j a_n, shape (N, K) each (eq. 1.4).

        In the precision of q, which need not be that of the features.
        """
        ...

    def add_statistics(self, W: Tensor, G: Tensor, into: Statistics) -> None:
        """Add the sums of W a a^T and of G a over the pairs of each class (eq. 3.1).

        Gathered features may be overwritten: call this last.
        """
        ...


def grouped_pairs(A: Tensor, classes: Tensor, n_classes: int) -> Pairs:
    """Group the pairs (n, classes[n, k]) of K classes per row, in the way that suits the device.

    A processor is fastest with one product per class, an accelerator with
    one call for all of them (measured on two cores: tiles take 1.4 times as
    long at ten classes and 3 times at 500).
    """
    if A.device.type == "cpu":
        return ClassGroups.of(A, classes, n_classes)
    return TiledPairs.of(A, classes, n_classes)


def stable_order(label: Tensor, n_labels: int) -> Tensor:
    """Positions in the order of their labels, which are below ``n_labels``."""
    # Few bits sort by counting: a fifth of the time.
    narrow = torch.uint8 if n_labels <= 2**8 else torch.int16 if n_labels <= 2**15 else torch.int64
    label = label.to(narrow)
    if label.device.type == "cpu":
        return torch.from_numpy(label.numpy().argsort(kind="stable"))
    return label.argsort(stable=True)


@dataclass(frozen=True)
class ClassGroups:
    """Pairs on a processor: a product for some pairs of one class at a time.

    Features are gathered piece by piece, which stays in the cache, and again
    for the sums: gathered all at once they would be written to memory, page
    by page, and read back.

    Attributes
    ----------
    A : Tensor of shape (N, P)
        Features of the rows.
    order, rows : Tensor of shape (N K,)
        Positions of the pairs, row by row, in the order of their classes, and their rows.
    pieces : list of (class, slice)
        Which of the sorted pairs are of one class, no more than a cache holds.
    n_columns : int
        Classes per row, K.
    """

    A: Tensor
    order: Tensor
    rows: Tensor
    pieces: list[tuple[int, slice]]
    n_columns: int

    @classmethod
    def of(cls, A: Tensor, classes: Tensor, n_classes: int) -> ClassGroups:
        """Group the pairs (n, classes[n, k]) of K classes per row."""
        K = classes.shape[1]
        label = classes.reshape(-1)
        order = stable_order(label, n_classes)
        counts = torch.bincount(label, minlength=n_classes).tolist()
        size = max(_FEWEST_PAIRS, _PIECE_NUMBERS // A.shape[1])
        pieces, end = [], 0
        for j, count in enumerate(counts):
            start, end = end, end + count
            pieces += [(j, slice(i, min(i + size, end))) for i in range(start, end, size)]
        return cls(A, order, order.div(K, rounding_mode="floor"), pieces, K)

    def moments(self, q: Roots) -> tuple[Tensor, Tensor]:
        A, m, T = self.A.to(q.m.dtype), q.m.unbind(), q.T.unbind()
        out = A.new_empty(2, self.order.shape[0])
        mean, deviation = out.unbind()
        for j, pairs in self.pieces:
            A_j = A.index_select(0, self.rows[pairs])
            torch.mv(A_j, m[j], out=mean[pairs])
            torch.linalg.vector_norm(A_j @ T[j], dim=1, out=deviation[pairs])
        deviation.square_()
        rows = torch.empty_like(out).scatter_(1, self.order.expand(2, -1), out)
        mean, variance = rows.reshape(2, -1, self.n_columns)
        return mean, variance

    def add_statistics(self, W: Tensor, G: Tensor, into: Statistics) -> None:
        root = W.reshape(-1).index_select(0, self.order).sqrt_()
        g = G.reshape(-1).index_select(0, self.order).div_(root)
        precision, linear = into.precision.unbind(), into.linear.unbind()
        for j, pairs in self.pieces:
            A_j = self.A.index_select(0, self.rows[pairs]).mul_(root[pairs, None])
            precision[j].addmm_(A_j.mT, A_j)
            linear[j].addmv_(A_j.mT, g[pairs])


@dataclass(frozen=True)
class TiledPairs:
    """Pairs on an accelerator: a fixed number of calls, none of which waits for the device.

    Attributes
    ----------
    A : Tensor of shape (n_tiles, rows, P)
        Features of the rows of each tile, all of which touch the same class.
    tiles : Tiles
    n_columns : int
        Classes per row, K.
    """

    A: Tensor
    tiles: Tiles
    n_columns: int

    @classmethod
    def of(cls, A: Tensor, classes: Tensor, n_classes: int) -> TiledPairs:
        """Group the pairs (n, classes[n, k]) of K classes per row."""
        K = classes.shape[1]
        label = classes.reshape(-1)
        tiles = Tiles.of(label, stable_order(label, n_classes), n_classes)
        return cls(tiles.gather(A, K), tiles, K)

    def moments(self, q: Roots) -> tuple[Tensor, Tensor]:
        A = self.A.to(q.m.dtype)
        group = self.tiles.group
        V = torch.linalg.vector_norm(torch.bmm(A, q.T.index_select(0, group)), dim=2).square_()
        F = torch.bmm(A, q.m.index_select(0, group).unsqueeze(2)).squeeze(2)
        mean, variance = (self.tiles.back(t).reshape(-1, self.n_columns) for t in (F, V))
        return mean, variance

    def add_statistics(self, W: Tensor, G: Tensor, into: Statistics) -> None:
        W, G = (self.tiles.spread(t.reshape(-1)) for t in (W, G))
        linear = torch.bmm(G.unsqueeze(1), self.A).squeeze(1)
        # Empty slots have weight zero.
        root = W.sqrt().unsqueeze(2)
        A = self.A.mul_(root)
        precision = torch.bmm(A.mT, A)
        into.precision.add_(self.tiles.summed(precision))
        into.linear.add_(self.tiles.summed(linear))
