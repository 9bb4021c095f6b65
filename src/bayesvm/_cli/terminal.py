"""What commands write: sections of short rows, JSON, progress and notes.

On a terminal sections have colours and progress is drawn; in a pipe sections
are plain text and there is no progress.
"""

from __future__ import annotations

import json
import math
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayesvm import _formatting

if TYPE_CHECKING:
    from bayesvm.tables import Evaluation


Row = tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A heading and rows of cells; the first cell of a row names it.

    Attributes
    ----------
    title : str
    rows : sequence of tuple of str
    header : tuple of str
        Names of the columns after the first, if they need any.
    """

    title: str
    rows: Sequence[Row]
    header: Row = ()

    @property
    def lines(self) -> list[Row]:
        """The rows, below the header if there is one."""
        return [("", *self.header), *self.rows] if self.header else list(self.rows)

    @property
    def n_columns(self) -> int:
        """Cells of the longest row."""
        return max(map(len, self.lines))


def print_sections(sections: Sequence[Section]) -> None:
    """Write the sections that have rows to standard output."""
    shown = [section for section in sections if section.rows]
    if sys.stdout.isatty():
        _print_with_rich(shown)
    else:
        sys.stdout.write("\n".join(map(_plain, shown)))


def print_json(value: Any) -> None:
    """Write JSON to standard output, numbers that are not finite as null."""
    sys.stdout.write(_json(value) + "\n")


def print_json_list(values: Iterable[Any]) -> None:
    """Write a JSON list whose values come one by one."""
    before = "[\n"
    for value in values:
        sys.stdout.write(before + textwrap.indent(_json(value), "  "))
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


def _json(value: Any) -> str:
    return json.dumps(_finite(value), indent=2, default=str)


def _plain(section: Section) -> str:
    lines = section.lines
    width = [max(len(line[i]) for line in lines if len(line) > i) for i in range(section.n_columns)]
    cells = ("  ".join(cell.ljust(width[i]) for i, cell in enumerate(line)) for line in lines)
    return "\n".join([section.title, *(f"  {line}".rstrip() for line in cells)]) + "\n"


def _print_with_rich(sections: Sequence[Section]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for section in sections:
        grid = Table.grid(padding=(0, 2))
        for i in range(section.n_columns):
            # A single column is a line to copy, not the name of something.
            grid.add_column(style="dim" if i == 0 < section.n_columns - 1 else "", overflow="fold")
        for number, line in enumerate(section.lines):
            style = "dim" if number == 0 and section.header else ""
            grid.add_row(*(Text(cell, style=style) for cell in line))
        console.print(Text(section.title, style="bold cyan"))
        console.print(Padding(grid, (0, 0, 1, 2)))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


# --- Formatting of figures and lists.


MOST_SHOWN = 8
_BAR = 20
# Intervals from fewer rows than this would say nothing, or too much.
_LEAST_ROWS = 10


def percent(share: float) -> str:
    """A share in percent.

    Examples
    --------
    >>> percent(0.91044), percent(0.9985), percent(1.0)
    ('91.0 %', '99.85 %', '100 %')
    """
    return _formatting.plain(_formatting.percent(share, 1))


def count_of(n: int, noun: str) -> str:
    """A number and its noun.

    Examples
    --------
    >>> count_of(1, "row"), count_of(20_000, "row")
    ('1 row', '20 000 rows')
    """
    return _formatting.plain(_formatting.plural(n, noun))


def interval(value: float, low: float, high: float, *, rows: int, share: bool = False) -> str:
    """A figure with its 95 % interval, or a dash where there are too few rows to know one.

    Examples
    --------
    >>> interval(0.9104, 0.8181, 0.9583, rows=67, share=True)
    '91.0 % (81.8 to 95.8)'
    >>> interval(0.2160, 0.0906, 0.3795, rows=67)
    '0.216 (0.091 to 0.380)'
    >>> interval(0.2160, 0.0906, 0.3795, rows=5)
    '0.216 (-)'
    """
    if rows < _LEAST_ROWS:
        return f"{percent(value) if share else f'{value:.3f}'} (-)"
    if share:
        return f"{percent(value)} ({percent(low)[:-2]} to {percent(high)[:-2]})"
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def kinds_in_words(kinds: Mapping[str, str]) -> str:
    """How many columns there are of each kind."""
    return _formatting.plain(", ".join(_formatting.kind_counts(kinds)))


def class_counts(classes: Sequence[Any], counts: Sequence[int]) -> str:
    """Classes with their rows, the most frequent first.

    Examples
    --------
    >>> class_counts(["ant", "bee"], [3, 5])
    'bee 5, ant 3'
    """
    order = sorted(range(len(counts)), key=lambda i: -counts[i])
    return shortened(f"{classes[i]} {counts[i]}" for i in order)


def shortened(parts: Iterable[str]) -> str:
    """The parts as a list, shortened to the first few."""
    parts = list(parts)
    more = [f"and {len(parts) - MOST_SHOWN} more"] if len(parts) > MOST_SHOWN else []
    return ", ".join([*(cut(part, 60) for part in parts[:MOST_SHOWN]), *more])


def cut(text: str, width: int) -> str:
    """One line of text, cut at a width."""
    return _formatting.shorten(text, width, "...")


def bar(share: float, largest: float) -> str:
    """A bar as long as a share of the largest one.

    Examples
    --------
    >>> bar(0.1, 0.4)
    '#####'
    """
    return "#" * round(_BAR * share / largest) if largest > 0 else ""


# --- Evaluations and relevances as sections.


_MOST_CLASSES = 8
_MOST_CONFUSIONS = 10
_LEAST_RELEVANCE = 0.005


def quality(judged: Sequence[Evaluation], threshold: float, max_error: float) -> Section:
    """Figures of one or more evaluations side by side; rows are answered from the threshold on."""
    answers = []
    for evaluation in judged:
        share, right = evaluation.answered(threshold)
        answers.append(f"{percent(share)}, right in {percent(right.value)}" if right else "none")
    rows: list[Row] = [
        ("accuracy", *(interval(*e.accuracy, rows=len(e.labels), share=True) for e in judged)),
        (f"always {cut(str(judged[0].majority), 20)}", *(percent(e.baseline_accuracy) for e in judged)),
        ("log-loss", *(interval(*e.log_loss, rows=len(e.labels)) for e in judged)),
        ("Brier score", *(f"{e.brier:.3f}" for e in judged)),
        ("calibration error", *(f"{e.calibration_error:.3f}" for e in judged)),
        (f"answers at {100 * max_error:g} % error", *answers),
    ]
    return Section("How good", rows, tuple(f"{e.origin}, {count_of(len(e.labels), 'row')}" for e in judged))


def abstention(evaluation: Evaluation, threshold: float, max_error: float) -> dict[str, Any]:
    """Figures of abstention, for JSON."""
    answered, accuracy = evaluation.answered(threshold)
    return {
        "max_error": max_error,
        "threshold": threshold,
        "origin": evaluation.origin,
        "answered": answered,
        "accuracy": None if accuracy is None else accuracy._asdict(),
    }


def confusions(evaluation: Evaluation) -> Section:
    """The confusion matrix of a few classes, else the most frequent mistakes."""
    names = [cut(str(label), 20) for label in evaluation.classes]
    matrix = evaluation.confusion
    if len(names) <= _MOST_CLASSES:
        rows: list[Row] = [(f"is {name}", *map(str, matrix[i])) for i, name in enumerate(names)]
        return Section("Confusions", rows, tuple(f"said {name}" for name in names))
    rows = [
        (count_of(int(matrix[true, said]), "row"), f"said {names[said]}, is {names[true]}")
        for true, said in evaluation.mistakes[:_MOST_CONFUSIONS]
    ]
    return Section("Most frequent mistakes", rows)


def relevance_rows(relevance: Any) -> list[Row]:
    """The most relevant columns with bars, from ``column_relevance``."""
    largest = float(relevance.max())
    shown = [(str(name), float(share)) for name, share in relevance.head(MOST_SHOWN).items()]
    return [
        (cut(name, 30), f"{100 * share:2.0f} %", bar(share, largest))
        for name, share in shown
        if share >= _LEAST_RELEVANCE
    ]


# --- Progress on standard error.


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
        """End the previous step and begin one of unknown length."""
        self.finish()
        if self._progress is not None:
            self._task = self._progress.add_task(text, total=None, detail="")

    def advance(self, total: int, detail: str) -> None:
        """Count one more of at most ``total`` parts of this step as done."""
        if self._progress is not None:
            self._progress.update(self._task, total=total, advance=1, detail=detail)

    def finish(self) -> None:
        """End the step and clear its line."""
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


# --- Notes: warnings of the libraries, for the user.


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Collect warnings meant for users, each message once; others are dropped."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            yield notes
        finally:
            messages = (" ".join(str(warning.message).split()) for warning in caught)
            notes.extend(dict.fromkeys(messages))


def print_notes(notes: list[str]) -> None:
    """Write notes to standard error."""
    for note in notes:
        sys.stderr.write(f"bayesvm: note: {note}\n")
