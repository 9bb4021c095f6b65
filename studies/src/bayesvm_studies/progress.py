"""Progress of a run: a live display on a terminal, lines elsewhere; both on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bayesvm._cli.terminal import count_of
from bayesvm_studies.runner import Listener

if TYPE_CHECKING:
    from bayesvm_studies.results import Result, Task


def time_words(seconds: float | None) -> str:
    """A time left in hours, minutes and seconds.

    Examples
    --------
    >>> time_words(4000.0), time_words(42.0), time_words(None)
    ('1:06:40', '0:42', '?')
    """
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _where(item: Task | Result) -> str:
    part = {"olson": f" fold {item.split}", "paper": ""}.get(item.protocol, f" seed {item.split}")
    return f"{item.protocol} {item.data}{part} {item.model}"


def _what(result: Result) -> str:
    if not result.ok:
        return f"{result.status.upper()}: {result.error}"
    n = result.n_test
    if n == 0:  # a clock
        return f"{result.total_s:.2f} s"
    scores = f"accuracy {result.correct / n:.3f}  log-loss {result.log_loss_sum / n:.3f}"
    return f"{scores}  {result.fit_s:.2f} s"


class FitLines(Listener):
    """One line per fit."""

    def planned(self, known: int, todo: int, left: float | None) -> None:
        """Say what is to be done."""
        self._say(f"{count_of(known, 'fit')} known, {todo} to do")

    def ended(self, result: Result, done: int, todo: int, left: float | None) -> None:
        """Say what came of it."""
        self._say(f"{done:>5}/{todo}  {_where(result):<52} {_what(result)}  left {time_words(left)}")

    def _say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class LiveFits(Listener):
    """A bar with the time left, the fits that are running, and lines for those that went wrong."""

    def __init__(self, live: Any) -> None:
        self._live = live
        self._known, self._done, self._todo = 0, 0, 0
        self._left: tuple[float, float] | None = None  # seconds, and when that was said
        self._running: dict[str, tuple[Task, float]] = {}
        self._last = ""

    def planned(self, known: int, todo: int, left: float | None) -> None:
        """The bar gets its length."""
        self._known, self._todo = known, todo
        self._set_left(left)

    def began(self, task: Task) -> None:
        """One more runs."""
        self._running[task.key] = (task, time.monotonic())

    def ended(self, result: Result, done: int, todo: int, left: float | None) -> None:
        """One less; failures stay on the screen."""
        self._running.pop(result.key, None)
        self._done, self._last = done, f"{_where(result)}  {_what(result)}"
        self._set_left(left)
        if not result.ok:
            from rich.text import Text

            self._live.console.print(Text(self._last, style="red"))

    def _set_left(self, left: float | None) -> None:
        self._left = None if left is None else (left, time.monotonic())

    def __rich__(self) -> Any:
        """What is shown now; asked for several times a second."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        left = None if self._left is None else max(0.0, self._left[0] - (now - self._left[1]))
        top = Table.grid(padding=(0, 1))
        top.add_row(
            ProgressBar(total=max(self._todo, 1), completed=self._done, width=24),
            Text(f"{self._done}/{self._todo} fits"),
            Text(f"left {time_words(left)}", style="cyan", no_wrap=True),
            Text(f"({self._known} known before)" if self._known else "", style="dim"),
        )
        lines = [
            Text(f"  {_where(task)}  {time_words(now - began)}", no_wrap=True, overflow="ellipsis")
            for task, began in self._running.values()
        ]
        last = Text(f"  last: {self._last}", style="dim", no_wrap=True, overflow="ellipsis")
        return Group(top, *lines, *([last] if self._last else []))


@contextmanager
def shown_fits() -> Iterator[Listener]:
    """A listener that suits standard error."""
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield FitLines()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
        shown = LiveFits(live)
        live.update(shown)
        yield shown
