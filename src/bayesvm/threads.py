"""How many threads a fit is worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["threads_for"]

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
