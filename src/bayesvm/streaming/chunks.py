"""Chunks of rows, and what can be asked of them: sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from bayesvm.streaming.label_kind import label_kind

__all__ = ["Chunk", "Pass", "Source", "Sums", "bunched", "changed", "joined", "joined_alike", "regrouped"]

FloatArray = npt.NDArray[np.float64]


class Chunk(NamedTuple):
    """Consecutive rows as they were given.

    Attributes
    ----------
    X : ndarray of shape (n, D)
        In double precision, in the units of the data. May hold NaN: the first pass looks.
    y : ndarray of shape (n,)
        Labels as they were given.
    weight : ndarray of shape (n,)
        Sample weights, ones where none were given.
    """

    X: FloatArray
    y: npt.NDArray[Any]
    weight: FloatArray


class Sums(Protocol):
    """What a pass makes of rows; the sums of two groups of rows can be merged."""

    def plus(self, other: Self) -> Self:
        """The sums over the rows of both, these coming first; ``self`` may be changed, ``other`` not."""
        ...


S = TypeVar("S", bound=Sums)
T = TypeVar("T")
Pass: TypeAlias = Callable[[Chunk], S]
"""What is computed from every chunk: a frozen dataclass that can be pickled, and all that is sent."""


class Source(Protocol):
    """Rows that can be read again and again, a chunk at a time.

    Attributes
    ----------
    n_features : int
    feature_names : tuple of str or None
        Names of the columns, if they have any.
    """

    @property
    def n_features(self) -> int: ...

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...

    def chunks(self) -> Iterator[Chunk]:
        """All rows, from the first, in the same order every time."""
        ...


def changed(what: str) -> str:
    """The message where rows differ between two passes."""
    return (
        f"the rows changed between two passes: {what}; each pass must see the same rows. An iterator, "
        "which is read only once, is written to a temporary file instead"
    )


def joined(chunks: list[Chunk]) -> Chunk:
    """One chunk of the rows of all."""
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(*(np.concatenate(part) for part in zip(*chunks, strict=True)))


def joined_alike(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The same rows in as few chunks as the sorts of labels allow.

    numpy would make texts of numbers beside them; the first pass finds and
    refuses what stays apart here.
    """
    return [joined(list(alike)) for _, alike in groupby(chunks, lambda chunk: label_kind(chunk.y))]


def bunched(items: Iterable[T], rows: Callable[[T], float], fewest: float) -> Iterator[list[T]]:
    """Neighbouring items together until they have some rows: calls cost more than rows there."""
    bunch: list[T] = []
    for item in items:
        bunch.append(item)
        if sum(map(rows, bunch)) >= fewest:
            yield bunch
            bunch = []
    if bunch:
        yield bunch


def regrouped(chunks: Iterable[Chunk], fewest: int) -> Iterator[Chunk]:
    """The same rows, with small chunks joined."""
    for bunch in bunched(chunks, lambda chunk: len(chunk.y), fewest):
        yield from joined_alike(bunch)
