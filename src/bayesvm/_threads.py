"""Number of threads for a fit, by the size of the problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

# Below this many multiplications a sweep, threads cost more than they bring:
# measured on two idle cores, iris took a quarter longer with two threads than
# with one, and many times as long when others used the cores, since waiting
# threads spin.
_WORTH_THREADS = 1e8


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """One thread for torch while small work is done; its own setting before and after."""
    before = torch.get_num_threads()
    if work >= _WORTH_THREADS or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# --- Blocks of rows on several threads: one block each, not all threads on every product.


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class _Crew:
    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        self._pool = pool

    def map(self, function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Results in the order of the items."""
        if self._pool is None or len(items) < 2:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))


def _alone() -> None:
    torch.set_num_threads(1)


@contextmanager
def crew(n_blocks: int) -> Iterator[_Crew]:
    """As many threads as torch may use, each of which computes alone.

    Threads that share every small operation wait for each other: on two cores
    and blocks of ten thousand rows they brought a tenth, a block each 1.6 times.
    """
    workers = min(torch.get_num_threads(), n_blocks)
    if workers < 2:
        yield _Crew(None)
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(workers, initializer=_alone) as pool:
            yield _Crew(pool)
    finally:
        torch.set_num_threads(before)  # part of the setting is the whole process's
