"""Peak memory of a step of this process, on Linux."""

from __future__ import annotations

from pathlib import Path

__all__ = ["forget_peak", "peak_above"]


def forget_peak() -> int:
    """Bytes in use now; the peak is counted anew from here."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def peak_above(before: int) -> int:
    """Bytes of the peak since it was forgotten above those that were in use then."""
    return _memory("VmHWM") - before


def _memory(field: str) -> int:
    """VmRSS or VmHWM in bytes (ru_maxrss would include the parent's past)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"no {field} in /proc/self/status")
