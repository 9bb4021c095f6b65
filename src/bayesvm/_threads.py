"""Threads: torch computes on one, and blocks of rows are dealt to as many as it was allowed.

Threads that share every operation wait for each other, spinning. Where something else keeps a core busy that
costs several times what they bring, however large the fit: on two cores with other work, 1,200 digits took
83 s with two threads of torch and 19 s with one, 20,000 rows 284 s and 70 s. Threads with blocks of rows meet
once a sweep, and wait asleep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

# How many threads torch had before it was told to compute on one; None outside of ``one_thread``.
_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for each of torch's operations, and its own setting afterwards.

    A ``thread_workers`` in between has as many threads as torch had threads.
    """
    before = torch.get_num_threads()
    token = _allowed.set(_n_threads())
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _allowed.reset(token)


def _n_threads() -> int:
    return _allowed.get() or torch.get_num_threads()


# --- Blocks of rows on several threads: one block each, not all threads on every product.


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Workers:
    """Threads that take an item each.

    Attributes
    ----------
    size : int
    """

    def __init__(self, size: int, pool: ThreadPoolExecutor | None = None) -> None:
        self.size = size
        self._pool = pool

    def map(self, function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Results in the order of the items."""
        if self._pool is None or len(items) < 2:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))


def _alone() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)  # which every thread sets for itself


@contextmanager
def thread_workers(n_blocks: int) -> Iterator[Workers]:
    """As many threads as torch was allowed, each of which computes alone.

    With blocks of ten thousand rows two were 1.6 times as fast as one; torch's own gained a tenth.
    """
    n_workers = min(_n_threads(), n_blocks)
    if n_workers < 2:
        yield Workers(1)
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(n_workers, initializer=_alone) as pool:
            yield Workers(n_workers, pool)
    finally:
        torch.set_num_threads(before)  # part of the setting is the whole process's
