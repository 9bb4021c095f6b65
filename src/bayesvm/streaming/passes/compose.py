"""Passes made of passes: one after the other, or two in one reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from bayesvm.streaming.chunks import Sums

__all__ = ["Both", "BothSums", "InParts"]

Item = TypeVar("Item", bound=NamedTuple)
Other = TypeVar("Other")
S = TypeVar("S", bound=Sums)
A = TypeVar("A", bound=Sums)
B = TypeVar("B", bound=Sums)
In = TypeVar("In")


@dataclass(frozen=True)
class BothSums(Generic[A, B]):
    """The sums of two passes."""

    first: A
    second: B

    def plus(self, other: BothSums[A, B]) -> BothSums[A, B]:
        return BothSums(self.first.plus(other.first), self.second.plus(other.second))


@dataclass(frozen=True)
class Both(Generic[In, A, B]):
    """Two passes in one reading of the rows."""

    first: Callable[[In], A]
    second: Callable[[In], B]

    def __call__(self, item: In) -> BothSums[A, B]:
        return BothSums(self.first(item), self.second(item))


@dataclass(frozen=True)
class InParts(Generic[Item, Other, S]):
    """Prepare some rows, add them up, go on to the next: what is prepared takes bounded memory.

    Attributes
    ----------
    prepare : callable
        From rows (a named tuple of arrays of equal length) to what is added up.
    add_up : callable
    size : int
        Rows prepared at once.
    """

    prepare: Callable[[Item], Other]
    add_up: Callable[[Other], S]
    size: int

    def __call__(self, item: Item) -> S:
        n = len(item[0])
        total: S | None = None
        for start in range(0, max(n, 1), self.size):
            rows = slice(start, start + self.size)
            part = item if n <= self.size else type(item)(*(column[rows] for column in item))
            sums = self.add_up(self.prepare(part))
            total = sums if total is None else total.plus(sums)
        assert total is not None
        return total
