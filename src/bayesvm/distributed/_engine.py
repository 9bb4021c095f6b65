"""Passes over chunks that live on a cluster: one task per group of chunks, merged as a tree."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Any, Self, TypeVar

from bayesvm._fit.engine import LocalEngine, Sums
from bayesvm.distributed._inputs import cloudpickle, dask

# --- How a worker's process treats freed memory.


# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Temporaries of up to so many bytes are kept, and so many bytes altogether.
_REUSED = 32 * 2**20
_WAITING = 256 * 2**20


@cache
def reuse_freed_memory() -> bool:
    """Let a worker's process keep temporaries of a pass for the next one; True if it was told to.

    Dask starts workers with an environment that has glibc give freed memory
    back to the system at once. Every temporary of more than 128 kB is then
    made of fresh pages, which the system clears first: a sweep took 1.9 times
    as long. What waits here is small beside a worker's chunks. Processes that
    Dask did not start are left alone.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _REUSED)) and bool(mallopt(_TRIM_THRESHOLD, _WAITING))


S = TypeVar("S", bound=Sums)

# How many sums one task merges: few messages per task, and a tree that stays flat.
_MERGED_AT_ONCE = 8
# Share of the workers' memory that prepared rows may take: chunks, passes and Dask itself need the rest.
_KEPT_SHARE = 0.25


@dataclass(frozen=True)
class DaskEngine:
    """Passes carried out by the Dask scheduler that is in use: a cluster, threads or processes.

    A pass travels as a task of its own, so every worker fetches it once, and
    a worker that is lost takes nothing with it that cannot be computed again.
    Sums are merged in the order of the chunks, so the result does not depend
    on the number of workers.

    Parameters
    ----------
    groups : sequence of Delayed
        Each gives a list of items, chunks of rows at first.
    n_features : int
    feature_names : tuple of str or None
    """

    groups: Sequence[Any]
    n_features: int
    feature_names: tuple[str, ...] | None

    @property
    def may_keep(self) -> int:
        """Bytes of prepared rows that workers may keep between passes."""
        client = _client(self.groups)
        if client is None:
            return LocalEngine.may_keep
        limits = [w["memory_limit"] for w in client.scheduler_info(n_workers=-1)["workers"].values()]
        # A limit of zero means none.
        return int(sum(_KEPT_SHARE * limit if limit else LocalEngine.may_keep for limit in limits))

    @property
    def in_order(self) -> bool:
        return False

    def walk(self) -> Iterator[Any]:
        """Refused: chunks are read by many workers at once."""
        raise ValueError("chunks on a cluster do not come one after the other")

    def total(self, work: Callable[[Any], S]) -> S:
        """The sums over all items, merged in their order."""
        (total,) = _compute(self._merged(_broadcast(work)))
        if total is None:
            raise ValueError("there is no row to learn from: the chunks are all empty")
        return total

    def kept(self, prepare: Callable[[Any], Any]) -> Self:
        """An engine over what ``prepare`` makes of the items, kept where the items are."""
        task, sent = dask().delayed(_prepared), _broadcast(prepare)
        groups = [task(sent, group) for group in self.groups]
        with _large_graphs():
            return replace(self, groups=dask().persist(*groups))

    def _merged(self, sent: Any) -> Any:
        part, merge = dask().delayed(_part), dask().delayed(_plus)
        parts = [part(sent, group) for group in self.groups]
        while len(parts) > 1:
            parts = [merge(*parts[at : at + _MERGED_AT_ONCE]) for at in range(0, len(parts), _MERGED_AT_ONCE)]
        return parts[0]


def held(groups: Sequence[Any]) -> Sequence[Any]:
    """The same groups, read once and kept by the workers of a cluster; read in every pass otherwise.

    A cluster's workers write to disk what exceeds their memory. Without a
    cluster the data may be larger than the memory of the only machine.
    """
    return groups if _client(groups) is None else list(dask().persist(*groups))


def _client(groups: Sequence[Any]) -> Any:
    """The client of the cluster that Dask would use; None for threads and processes of this machine."""
    scheduler = dask().base.get_scheduler(collections=list(groups))
    owner = getattr(scheduler, "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


def _broadcast(work: Any) -> Any:
    """A pass as a task: in the graph once, so a lost worker's copy is made again.

    The bytes are made here because kernels of one's own are often defined in
    ``__main__``, which only cloudpickle can send.
    """
    return dask().delayed(pickle.loads, pure=False)(cloudpickle().dumps(work))


def _large_graphs() -> Any:
    """Dask warns of graphs that hold data; what is broadcast belongs there, and is there once."""
    return dask().config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})


def _compute(root: Any) -> Any:
    with _large_graphs():
        return dask().compute(root)


# Tasks. Their arguments are results of other tasks, which Dask may hand to
# another task again when a worker is lost: they are never changed.


def _part(work: Callable[[Any], S], items: Sequence[Any]) -> S | None:
    reuse_freed_memory()
    return _added(map(work, items)) if items else None


def _prepared(prepare: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    reuse_freed_memory()
    return [prepare(item) for item in items]


def _plus(*parts: S | None) -> S | None:
    present = [part for part in parts if part is not None]
    if len(present) < 2:
        return present[0] if present else None
    return _added([copy.deepcopy(present[0]), *present[1:]])  # ``plus`` may change the first


def _added(parts: Iterable[S]) -> S:
    return reduce(lambda total, part: total.plus(part), parts)
