"""A row, what the model believes, and a person at the terminal."""

from __future__ import annotations

import sys
from typing import Any

from bayesvm.active.answers import numbered
from bayesvm.active.labelling import Belief, Labelling
from bayesvm.cli.wording import bar, count_of, cut, percent

__all__ = ["Screen", "standing_in_words"]

_CLASSES_SHOWN = 9
_LONGEST_VALUE = 600
# Lines around the values: heading, classes, hint and prompt.
_LINES_AROUND = 8
_FEWEST_COLUMNS = 8

HELP = """A number or the name of a class labels the row; another name makes a new class.
  u  take back the last answer, also one of an earlier run
  s  skip the row
  q  end (so do Ctrl-D and Ctrl-C); the same command goes on later
  ?  this help
If a class has the name of a command, put a colon before the command: :u"""


def standing_in_words(labelling: Labelling) -> str:
    """How far the labelling is and how good the model, in one line."""
    words = f"{len(labelling.labels)} labelled, {labelling.n_left} left"
    accuracy = labelling.leave_one_out_accuracy
    return words if accuracy is None else f"{words}, leave-one-out {percent(accuracy)}"


class Screen:
    """Questions on standard error, answers from standard input.

    Parameters
    ----------
    labelling : Labelling
    columns : tuple of str
        Columns to show; all that fit if empty.
    """

    def __init__(self, labelling: Labelling, columns: tuple[str, ...]) -> None:
        from rich.console import Console

        self._labelling = labelling
        self._columns = columns
        self._console = Console(stderr=True, highlight=False)

    def show(self, row: int, belief: Belief | None) -> None:
        """A row of the pool and the classes it may be of."""
        from rich.text import Text

        console, labelling = self._console, self._labelling
        title = f"Row {row + 1} of {len(labelling.table)}"
        words = standing_in_words(labelling)
        gap = max(2, console.width - len(title) - len(words))
        console.print()
        console.print(Text.assemble((title, "bold cyan"), " " * gap, (words, "dim")))
        console.print(self._values(row))
        if labelling.classes:
            console.print(self._classes(belief))

    def ask(self, prompt: str) -> str | None:
        """A line that was typed; None at the end of the input."""
        from rich.text import Text

        self._console.print(Text(f"{prompt} ", style="bold"), end="")
        line = sys.stdin.readline()
        if not line:
            self._console.print()
            return None
        return line

    def say(self, text: str) -> None:
        """A remark between two questions."""
        from rich.text import Text

        self._console.print(Text(text[:1].upper() + text[1:], style="yellow"))

    def help(self) -> None:
        """Commands and classes."""
        from rich.text import Text

        self._console.print(Text(HELP))
        numbers = numbered(self._labelling.classes)
        for i, label in enumerate(self._labelling.classes, 1):
            lead = f"  {i}  " if numbers else "  "
            self._console.print(
                Text(f"{lead}{label} ({count_of(self._labelling.counts[label], 'row')})", style="dim")
            )

    def _values(self, row: int) -> Any:
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        values = self._labelling.shown(row, self._columns)
        room = max(_FEWEST_COLUMNS, self._console.height - _LINES_AROUND - len(self._listed(None)))
        more = 0 if self._columns else max(0, len(values) - room)
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", overflow="fold")
        grid.add_column(overflow="fold")
        for name, value in list(values.items())[: len(values) - more]:
            grid.add_row(Text(name), Text(cut(value, _LONGEST_VALUE) or "-"))
        if more:
            grid.add_row(
                Text("..."), Text(f"{count_of(more, 'more column')}; --columns chooses", style="dim")
            )
        return Padding(grid, (0, 0, 0, 2))

    def _listed(self, belief: Belief | None) -> list[int]:
        """Classes to show, by number: all if they are few, else the most probable."""
        classes = self._labelling.classes
        if len(classes) <= _CLASSES_SHOWN:
            return list(range(len(classes)))
        order = sorted(range(len(classes)), key=lambda i: -(belief.of(classes[i]) if belief else 0.0))
        return sorted(order[:_CLASSES_SHOWN])

    def _classes(self, belief: Belief | None) -> Any:
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        classes, numbers = self._labelling.classes, numbered(self._labelling.classes)
        grid = Table.grid(padding=(0, 2))
        for _ in range(4):
            grid.add_column()
        listed = self._listed(belief)
        for i in listed:
            share = None if belief is None else belief.of(classes[i])
            grid.add_row(
                Text(str(i + 1) if numbers else "", style="bold cyan"),
                Text(cut(classes[i], 40), style="bold" if belief and classes[i] == belief.best else ""),
                Text("" if share is None else f"{100.0 * share:3.0f} %"),
                Text("" if share is None else bar(share, 1.0), style="cyan"),
            )
        if len(listed) < len(classes):
            grid.add_row("", Text(f"and {len(classes) - len(listed)} more; ? lists all", style="dim"), "", "")
        return Padding(grid, (1, 0, 0, 2))
