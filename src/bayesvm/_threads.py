"""Threads: each operation of torch runs on one, and blocks of rows are distributed over a thread pool.

Threads that share every operation synchronise by spinning. Where another process keeps a core busy, that
costs several times what they gain, for fits of any size: on two cores with other work, 1,200 digits took
83 s with two threads of torch and 19 s with one, 20,000 rows 284 s and 70 s. Threads with blocks of rows
synchronise once a sweep, and block without spinning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

# Number of torch's threads before ``one_thread`` set it to one; None outside of it.
_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for each of torch's operations; the setting is restored afterwards.

    A ``thread_workers`` inside has as many threads as torch had before.
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


# --- A thread pool over blocks of rows.


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Workers:
    """A thread pool, or the calling thread alone.

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
    torch.set_grad_enabled(False)  # a setting of each thread


@contextmanager
def thread_workers(n_blocks: int) -> Iterator[Workers]:
    """A pool of as many threads as torch had, in each of which torch uses one.

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
        torch.set_num_threads(before)  # the initialiser changed part of it for the whole process
