"""Chunks of rows, and engines for map-reduce passes over them: in this process, or on a cluster."""

from __future__ import annotations

import numbers
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating]

# --- Kinds of labels: labels of two kinds cannot be sorted together.


_OF_TYPES = {**dict.fromkeys("biuf", "numbers"), "U": "texts", "S": "bytes", "M": "dates"}


def label_kind(y: npt.NDArray[Any]) -> str | None:
    """The sort of labels, that of the first where they are objects; None if there are none."""
    if not y.size:
        return None
    return sort_of(y.flat[0]) if y.dtype.kind == "O" else _OF_TYPES.get(y.dtype.kind, str(y.dtype))


def sort_of(label: Any) -> str:
    """The sort of one label: numbers, texts, or the name of its type."""
    if isinstance(label, str):
        return "texts"
    if isinstance(label, (numbers.Number, np.bool_)):
        return "numbers"
    return "bytes" if isinstance(label, bytes) else type(label).__name__


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
    """The result of a pass over rows; results of two groups of rows can be merged."""

    def plus(self, other: Self) -> Self:
        """The sums over the rows of both, these coming first; ``self`` may be changed, ``other`` not."""
        ...


S = TypeVar("S", bound=Sums)
T = TypeVar("T")
Pass: TypeAlias = Callable[[Chunk], S]
"""The map step of a pass: a frozen dataclass that can be pickled, from a chunk to sums."""


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

    numpy would turn numbers beside strings into strings; the first pass finds
    and refuses labels that stay apart here.
    """
    return [joined(list(alike)) for _, alike in groupby(chunks, lambda chunk: label_kind(chunk.y))]


def bunched(items: Iterable[T], rows: Callable[[T], float], fewest: float) -> Iterator[list[T]]:
    """Consecutive items in groups of at least so many rows, to save calls."""
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


# --- Engines: passes over all chunks.

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)

# Chunks with fewer rows are joined: the overhead of a call would exceed the work on its rows.
_FEWEST_ROWS = 4096
# Bytes that may be kept in memory between passes.
_KEPT_BYTES = 2**30
# Seconds to wait for the reader thread at the end; it polls 20 times a second unless its source blocks.
_PATIENCE = 0.5


class Engine(Protocol[Item_co]):
    """Sums over items, which are chunks of rows at first.

    Attributes
    ----------
    n_features : int
    feature_names : tuple of str or None
    may_keep : int
        Bytes that ``kept`` may take.
    in_order : bool
        Whether ``walk`` is available.
    """

    @property
    def n_features(self) -> int: ...

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...

    @property
    def may_keep(self) -> int: ...

    @property
    def in_order(self) -> bool: ...

    def total(self, work: Callable[[Item_co], S]) -> S:
        """The sums over all items, merged in their order (``Sums.plus`` need not commute)."""
        ...

    def walk(self) -> Iterator[Item_co]:
        """Iterate over the items in order, for computations that are not sums."""
        ...

    def kept(self, prepare: Callable[[Item_co], Any]) -> Engine[Any]:
        """An engine over what ``prepare`` makes of the items, computed once and kept where they are.

        The caller ensures that this takes at most ``may_keep`` bytes.
        """
        ...


@dataclass(frozen=True)
class LocalEngine:
    """Passes in this process; the next chunk is read while this one is computed.

    Parameters
    ----------
    source : Source
    may_keep : int
        Bytes of prepared rows that may stay in memory between passes.
    fewest_rows : int
        Smaller chunks are joined.
    """

    source: Source
    may_keep: int = _KEPT_BYTES
    fewest_rows: int = _FEWEST_ROWS

    @property
    def n_features(self) -> int:
        return self.source.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return self.source.feature_names

    @property
    def in_order(self) -> bool:
        return True

    def total(self, work: Callable[[Chunk], S]) -> S:
        """The sums over all rows of the source."""
        return _summed(work, self.walk())

    def walk(self) -> Iterator[Chunk]:
        """The chunks in order, for computations that are not sums."""
        return read_ahead(regrouped(self.source.chunks(), self.fewest_rows))

    def kept(self, prepare: Callable[[Chunk], Any]) -> Engine[Any]:
        """An engine over prepared chunks in memory."""
        items = [prepare(chunk) for chunk in self.walk()]
        return KeptEngine(items, self.n_features, self.feature_names, self.may_keep)


@dataclass(frozen=True)
class KeptEngine(Generic[Item]):
    """Passes over a list of items in memory."""

    items: list[Item]
    n_features: int
    feature_names: tuple[str, ...] | None
    may_keep: int = _KEPT_BYTES

    @property
    def in_order(self) -> bool:
        return True

    def total(self, work: Callable[[Item], S]) -> S:
        return _summed(work, self.items)

    def walk(self) -> Iterator[Item]:
        return iter(self.items)

    def kept(self, prepare: Callable[[Item], Any]) -> Engine[Any]:
        return KeptEngine(
            [prepare(i) for i in self.items], self.n_features, self.feature_names, self.may_keep
        )


def gathered(engine: Engine[Chunk]) -> KeptEngine[Chunk]:
    """All rows of an engine as one chunk in memory."""
    rows = engine.total(gather).rows()
    return KeptEngine([rows], engine.n_features, engine.feature_names, engine.may_keep)


@dataclass(frozen=True)
class Gathered:
    """Chunks in their order."""

    chunks: list[Chunk]

    def plus(self, other: Gathered) -> Gathered:
        return Gathered(self.chunks + other.chunks)

    def rows(self) -> Chunk:
        """All rows as one chunk."""
        return joined(self.chunks)


def gather(chunk: Chunk) -> Gathered:
    """The pass that gathers all rows in this process."""
    return Gathered([chunk])


def _summed(work: Callable[[Item], S], items: Iterable[Item]) -> S:
    total: S | None = None
    for item in items:
        part = work(item)
        total = part if total is None else total.plus(part)
    if total is None:
        raise ValueError("there is no row to learn from: the data hold no chunks")
    return total


class _End:
    """The end of the items, with the exception raised while reading, if any."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def read_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; the next one is fetched in a thread while the caller works on this one.

    Leaving early, by an exception or Ctrl-C too, ends the thread; one that is
    blocked by its source is not joined, and ends when the source returns.
    """
    ready: queue.Queue[Any] = queue.Queue(1)
    left = threading.Event()

    def put(item: object) -> bool:
        while not left.is_set():
            try:
                ready.put(item, timeout=0.05)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                if not put(item):
                    return
        except BaseException as e:  # raised again in the caller's thread
            error = e
        put(_End(error))

    thread = threading.Thread(target=read, daemon=True, name="bayesvm-read-ahead")
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield cast(Item, item)
    finally:
        left.set()
        thread.join(_PATIENCE)
