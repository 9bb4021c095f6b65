"""Progress of a fit: what it reports after every step, and how it can be stopped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TextIO


@dataclass(frozen=True)
class Step:
    """One step of one stage of a fit.

    Attributes
    ----------
    stage : str
    number, total : int
        This step, and how many there are at most.
    bound, change : float
        The bound after it and how much the step changed.
    state : callable
        What the stage would return if it ended here; evaluated lazily.
    """

    stage: str
    number: int
    total: int
    bound: float
    change: float
    state: Callable[[], Any]


class Progress(Protocol):
    """Called after every step of a stage; a true return value ends the stage early."""

    def __call__(self, step: Step) -> bool: ...


def silent(step: Step) -> bool:
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

    def __call__(self, step: Step) -> bool:
        now = time.monotonic()
        if step.stage != self._stage:
            self.close()
            self._stage, self._started = step.stage, now
        left = (now - self._started) / step.number * (step.total - step.number)
        text = (
            f"{step.stage} {step.number}/{step.total}  bound {step.bound:.6g}  change {step.change:.2g}  "
            f"at most {left:.0f} s left"
        )
        if self._stream.isatty():
            self._stream.write(f"\r{text:<78}")
            self._open_line = True
        elif step.number % max(1, step.total // 10) == 0:
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
