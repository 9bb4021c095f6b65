"""How much memory a piece of work needs at its worst, on Linux."""

from __future__ import annotations

import ctypes
from pathlib import Path

_PROC = Path("/proc/self")


def _field(name: str) -> float | None:
    """A number of /proc/self/status in 10^6 bytes."""
    try:
        lines = (_PROC / "status").read_text().splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.startswith(name + ":")), None)
    return None if found is None else int(found.split()[1]) * 1024 / 1e6


class PeakMemory:
    """The high-water mark of this process from now on, above what it holds now.

    A process that has worked before keeps freed memory for later, which would
    hide what the next work needs: it is given back first.
    """

    def __init__(self) -> None:
        self._before: float | None = None
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            (_PROC / "clear_refs").write_text("5")  # sets the mark to the present
            self._before = _field("VmRSS")
        except (OSError, AttributeError):
            pass  # not Linux, or not allowed

    def peak_mb(self) -> float | None:
        """The mark in 10^6 bytes, or None where it cannot be known."""
        peak = _field("VmHWM")
        if self._before is None or peak is None:
            return None
        return max(0.0, peak - self._before)
