"""What a fit reports while it runs, and how it is told to stop."""

from __future__ import annotations

import sys
import time
from typing import Protocol, TextIO

__all__ = ["PrintedProgress", "Progress", "silent"]


class Progress(Protocol):
    """Called after every step of a stage; a true answer ends the stage early."""

    def __call__(self, stage: str, step: int, total: int, bound: float, change: float) -> bool:
        """Report step ``step`` of at most ``total`` with the bound and the change it made."""
        ...


def silent(stage: str, step: int, total: int, bound: float, change: float) -> bool:
    """Report nothing."""
    return False


class PrintedProgress:
    """One line per stage on a terminal, rewritten in place; a line per tenth elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._stage = ""
        self._started = 0.0
        self._open_line = False
        self._pending = ""

    def __call__(self, stage: str, step: int, total: int, bound: float, change: float) -> bool:
        now = time.monotonic()
        if stage != self._stage:
            self.close()
            self._stage, self._started = stage, now
        left = (now - self._started) / step * (total - step)
        text = f"{stage} {step}/{total}  bound {bound:.6g}  change {change:.2g}  at most {left:.0f} s left"
        if self._stream.isatty():
            self._stream.write(f"\r{text:<78}")
            self._open_line = True
        elif step % max(1, total // 10) == 0:
            self._stream.write(text + "\n")
            self._pending = ""
        else:
            self._pending = text + "\n"
        self._stream.flush()
        return False

    def close(self) -> None:
        """End a line that was being rewritten; write the last step of a stage that ended early."""
        self._stream.write("\n" if self._open_line else self._pending)
        self._open_line, self._pending = False, ""
