"""Short work that Ctrl-C must not cut in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Interrupts", "held_interrupts"]


@dataclass
class Interrupts:
    """Whether Ctrl-C was pressed meanwhile."""

    pressed: bool = False


@contextmanager
def held_interrupts() -> Iterator[Interrupts]:
    """Only take note of Ctrl-C until the block ends; whoever asked for that looks at the note.

    Signals reach the main thread only; in another one nothing needs holding.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return

    def take_note(*_: Any) -> None:
        interrupts.pressed = True

    before = signal.signal(signal.SIGINT, take_note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
