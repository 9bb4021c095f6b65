"""How a worker's process treats freed memory."""

from __future__ import annotations

import ctypes
import os
from functools import cache

__all__ = ["reuse_freed_memory"]

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
