"""Rows that touch only a few classes each, sorted by class so that work does not grow with C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from bayesvm.core.gaussian import Roots
from bayesvm.core.sites import Statistics
from bayesvm.core.tiles import Tiles

__all__ = ["ClassGroups", "Pairs", "TiledPairs", "grouped_pairs", "stable_order"]

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
        # Slots that nothing lies in have weight zero.
        root = W.sqrt().unsqueeze(2)
        A = self.A.mul_(root)
        precision = torch.bmm(A.mT, A)
        into.precision.add_(self.tiles.summed(precision))
        into.linear.add_(self.tiles.summed(linear))
