"""What a long command is doing and how long it will take, on a terminal's standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["FitProgress", "Steps", "shown_progress"]

# Names of a fit's stages in plain words.
_STAGES = {
    "kernel": "finding what matters",
    "posterior": "settling decisions",
}


class Steps:
    """The line of the current step of a command; does nothing where there is no terminal."""

    def __init__(self, progress: Any = None) -> None:
        self._progress = progress
        self._task: Any = None

    def start(self, text: str) -> None:
        """Begin a step of unknown length; the one before is over."""
        self.finish()
        if self._progress is not None:
            self._task = self._progress.add_task(text, total=None, detail="")

    def advance(self, total: int, detail: str) -> None:
        """One of at most ``total`` parts of this step is done."""
        if self._progress is not None:
            self._progress.update(self._task, total=total, advance=1, detail=detail)

    def finish(self) -> None:
        """The step is over; its line goes."""
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None


class FitProgress:
    """A scikit-learn callback that reports the steps of each fit in turn.

    Parameters
    ----------
    steps : Steps
    titles : list of str
        What the fits are for, in order; short, so that the time left has room.
    """

    def __init__(self, steps: Steps, titles: list[str]) -> None:
        self._steps = steps
        self._titles = iter(titles)

    def setup(self, estimator: Any, context: Any) -> None:
        """A fit begins."""
        self._steps.start(next(self._titles))

    def teardown(self, estimator: Any, context: Any) -> None:
        """A fit is over."""
        self._steps.finish()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """A part of a fit begins."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """A part of a fit is done; go on."""
        if context.task_name in _STAGES:
            total = context.parent.max_subtasks or 1
            self._steps.advance(total, _STAGES[context.task_name])
        return False


@contextmanager
def shown_progress(wanted: bool = True) -> Iterator[Steps]:
    """Steps drawn on standard error if that is a terminal; they vanish at the end."""
    if not wanted or not sys.stderr.isatty():
        yield Steps()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        # On a narrow terminal the detail at the end is cut, never the time left.
        TimeRemainingColumn(table_column=Column(no_wrap=True, min_width=len("0:00:00"))),
        TextColumn("{task.fields[detail]}", style="dim", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
    with progress:
        steps = Steps(progress)
        yield steps
        steps.finish()
