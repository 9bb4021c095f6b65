"""Who carries out a pass over the chunks: here one process, elsewhere a cluster."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from bayesvm._fit.chunks import Chunk, Source, Sums, regrouped

S = TypeVar("S", bound=Sums)
Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)

# Chunks with fewer rows are joined: what a pass costs per call would outweigh what it costs per row.
_FEWEST_ROWS = 4096
# Bytes that may be kept in memory between passes.
_KEPT_BYTES = 2**30
# Seconds that whoever leaves waits for the reader, which looks up 20 times a second unless its source blocks.
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
        Whether ``walk`` can be had.
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
        """The items one after the other, for what is no sum."""
        ...

    def kept(self, prepare: Callable[[Item_co], Any]) -> Engine[Any]:
        """An engine over what ``prepare`` makes of the items, computed once and kept where they are.

        The caller has seen to it that this takes at most ``may_keep`` bytes.
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
        """The chunks in their order, for what is no sum."""
        return read_ahead(regrouped(self.source.chunks(), self.fewest_rows))

    def kept(self, prepare: Callable[[Chunk], Any]) -> Engine[Any]:
        """An engine over prepared chunks in memory."""
        items = [prepare(chunk) for chunk in self.walk()]
        return _Kept(items, self.n_features, self.feature_names, self.may_keep)


@dataclass(frozen=True)
class _Kept(Generic[Item]):
    """Passes over a list."""

    items: list[Item]
    n_features: int
    feature_names: tuple[str, ...] | None
    may_keep: int

    @property
    def in_order(self) -> bool:
        return True

    def total(self, work: Callable[[Item], S]) -> S:
        return _summed(work, self.items)

    def walk(self) -> Iterator[Item]:
        return iter(self.items)

    def kept(self, prepare: Callable[[Item], Any]) -> Engine[Any]:
        return _Kept([prepare(i) for i in self.items], self.n_features, self.feature_names, self.may_keep)


def _summed(work: Callable[[Item], S], items: Iterable[Item]) -> S:
    total: S | None = None
    for item in items:
        part = work(item)
        total = part if total is None else total.plus(part)
    if total is None:
        raise ValueError("there is no row to learn from: the data hold no chunks")
    return total


class _End:
    """Behind the last item: what went wrong while reading, if anything did."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def read_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; the next one is fetched in a thread while the caller works on this one.

    Leaving early, by an error or Ctrl-C too, ends the thread; one that waits
    for its source is not waited for, and ends when that gives something.
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
        except BaseException as e:  # whatever it is, the caller's thread raises it
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
