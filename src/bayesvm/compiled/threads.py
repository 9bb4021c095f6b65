"""Blocks of rows shared out among threads: numpy lets go of the interpreter while it computes."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

__all__ = ["available_threads", "check_threads", "map_in_threads"]

# Fewer blocks than this for each thread are not worth starting them.
_FEWEST_BLOCKS = 4


def available_threads() -> int:
    """Cores this process may use, or ``OMP_NUM_THREADS`` if that is less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, max(1, int(asked))) if asked.isdecimal() else cores


def check_threads(n_threads: object) -> None:
    """Refuse what is neither a positive whole number nor None."""
    whole = isinstance(n_threads, numbers.Integral) and not isinstance(n_threads, bool)
    if n_threads is not None and not (whole and cast(int, n_threads) > 0):
        raise ValueError(f"n_threads={n_threads!r} is not valid; it must be a positive whole number or None")


def map_in_threads(work: Callable[[int], None], starts: Sequence[int], n_threads: int | None) -> None:
    """Do the work for every start, in as many threads as are worth it."""
    n = min(available_threads() if n_threads is None else n_threads, len(starts) // _FEWEST_BLOCKS)
    if n <= 1:
        for start in starts:
            work(start)
        return
    with ThreadPoolExecutor(n) as pool:
        for _ in pool.map(work, starts):
            pass
