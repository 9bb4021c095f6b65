"""The questions and answers of ``bayesvm label``: with a person, a pipe, or a file of labels.

Work on the label file is not interrupted half-way: Ctrl-C takes effect after it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bayesvm._cli.terminal import bar, count_of, cut, percent, shown_progress
from bayesvm.active._label_file import Answer, numbered, read_answer
from bayesvm.active._labelling import Belief, Labelling
from bayesvm.tables._exceptions import closest
from bayesvm.tables._fitting import held_interrupts

_Found = TypeVar("_Found")

_CLASSES_SHOWN = 9
_LONGEST_VALUE = 600
# Lines around the values: heading, classes, hint and prompt.
_LINES_AROUND = 8
_FEWEST_COLUMNS = 8

HELP = """A number or the name of a class labels the row; another name makes a new class.
  u  undo the last answer, even one from an earlier run
  s  skip the row
  q  quit (so do Ctrl-D and Ctrl-C); run the same command to continue
  ?  this help
If a class has the name of a command, put a colon before the command: :u"""


def progress_line(labelling: Labelling) -> str:
    """Rows labelled and left, and the accuracy of the model."""
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
        """Show a row of the pool and the classes it may be of."""
        from rich.text import Text

        console, labelling = self._console, self._labelling
        title = f"Row {row + 1} of {len(labelling.table)}"
        words = progress_line(labelling)
        gap = max(2, console.width - len(title) - len(words))
        console.print()
        console.print(Text.assemble((title, "bold cyan"), " " * gap, (words, "dim")))
        console.print(self._values(row))
        if labelling.classes:
            console.print(self._classes(belief))

    def ask(self, prompt: str) -> str | None:
        """Ask for a line; None at the end of the input."""
        from rich.text import Text

        self._console.print(Text(f"{prompt} ", style="bold"), end="")
        line = sys.stdin.readline()
        if not line:
            self._console.print()
            return None
        return line

    def say(self, text: str) -> None:
        """Print a remark between two questions."""
        from rich.text import Text

        self._console.print(Text(text[:1].upper() + text[1:], style="yellow"))

    def help(self) -> None:
        """Print the commands and classes."""
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


# From this many rows on a person waits long enough for a progress line.
_LARGE = 50_000


def ask_person(labelling: Labelling, columns: tuple[str, ...], limit: int | None) -> None:
    """Ask at the terminal until nothing is left, the limit is reached, or the person ends it."""
    screen = Screen(labelling, columns)
    screen.say(
        f"Every answer is saved at once in {labelling.file.path}. A number or a name labels the row; "
        "u takes back, s skips, ? helps, q ends."
    )
    answered = 0
    while limit is None or answered < limit:
        with shown_progress(len(labelling.table) >= _LARGE) as steps:
            steps.start("Choosing the most informative row")
            row = _uninterrupted(labelling.next_row)
        if row is None:
            screen.say("No row is left to ask about.")
            line = screen.ask("u takes back the last answer, anything else ends:")
            if line is None or read_answer(line, ()).kind != "undo":
                return
            answered += _take_back(labelling, screen.say)
            continue
        screen.show(row, labelling.belief(row))
        while True:
            line = screen.ask(f"{labelling.target}?")
            answer = Answer("quit") if line is None else read_answer(line, labelling.classes)
            if answer.kind == "help":
                screen.help()
            elif answer.kind == "no such number":
                screen.say(f"There are {len(labelling.classes)} classes; ? lists them.")
            elif answer.kind == "new":
                screen.say(f"{answer.label!r} is not a class yet{closest(answer.label, labelling.classes)}")
                if _confirmed(screen.ask("A new class? [y/N]"), answer.label):
                    answer = Answer("label", answer.label)
                    break
            elif answer.kind != "nothing":
                break
        if answer.kind == "quit":
            return
        answered += _carry_out(labelling, row, answer, screen.say)


def ask_pipe(labelling: Labelling, open_classes: bool, limit: int | None, quiet: bool) -> None:
    """Take answers from standard input, a line each.

    Parameters
    ----------
    labelling : Labelling
    open_classes : bool
        Whether an unknown name becomes a new class; if not, it is refused.
    limit : int or None
    quiet : bool
        Whether to say nothing of each answer.
    """
    answered = 0
    say = _silent if quiet else _remark
    number = 0
    while (limit is None or answered < limit) and (line := sys.stdin.readline()):
        number += 1
        answer = read_answer(line, labelling.classes)
        if answer.kind == "quit":
            return
        if answer.kind in ("nothing", "help"):
            continue
        if answer.kind == "new" and open_classes:
            answer = Answer("label", answer.label)
        elif answer.kind in ("new", "no such number"):
            raise ValueError(
                f"answer {number}, {answer.label!r}, is not a class; the classes are "
                f"{', '.join(labelling.classes)}. The answers before it are saved in {labelling.file.path}"
            )
        if answer.kind == "undo":  # also when no row is left
            answered += _take_back(labelling, say)
            continue
        row = _uninterrupted(labelling.next_row)
        if row is None:
            say("no row is left to ask about")
            return
        answered += _answer_row(labelling, row, answer, say)


def ask_file(labelling: Labelling, labels: Mapping[int, str], limit: int | None, quiet: bool) -> None:
    """Take answers from a table of labels."""
    answered = 0
    say = _silent if quiet else _remark
    while limit is None or answered < limit:
        row = _uninterrupted(labelling.next_row)
        if row is None:
            return
        answered += _answer_row(labelling, row, Answer("label", labels[row]), say)


def _answer_row(labelling: Labelling, row: int, answer: Answer, say: Callable[[str], None]) -> int:
    """Carry out an answer and print a line about it."""
    belief = labelling.belief(row)
    change = _carry_out(labelling, row, answer, say)
    if answer.kind == "label":
        believed = "" if belief is None else f" (believed {percent(belief.of(answer.label))})"
        say(f"row {row + 1}: {answer.label}{believed}")
    elif answer.kind == "skip":
        say(f"row {row + 1}: skipped")
    return change


def _carry_out(labelling: Labelling, row: int, answer: Answer, say: Callable[[str], None]) -> int:
    """Label, skip or undo; return the change in the number of answers."""
    if answer.kind == "label":
        _uninterrupted(lambda: labelling.answer(row, answer.label))
        return 1
    if answer.kind == "skip":
        _uninterrupted(lambda: labelling.skip(row))
        return 0
    return _take_back(labelling, say)


def _take_back(labelling: Labelling, say: Callable[[str], None]) -> int:
    """Undo the last answer; return the change in the number of answers."""
    taken = _uninterrupted(labelling.undo)
    if taken is None:
        say("there is nothing to take back")
        return 0
    said = repr(taken.label) if taken.label else "skipped"
    say(f"row {taken.row + 1} was {said}; it is asked again")
    return -1 if taken.label else 0


def _confirmed(line: str | None, label: str) -> bool:
    """Whether the person confirms a new class, with yes or by repeating its name."""
    words = " ".join((line or "").split()).casefold()
    return words in ("y", "yes", label.casefold())


def _uninterrupted(work: Callable[[], _Found]) -> _Found:
    """Do something without interruption; Ctrl-C takes effect afterwards."""
    with held_interrupts() as interrupts:
        found = work()
    if interrupts.pressed:
        raise KeyboardInterrupt
    return found


def _remark(text: str) -> None:
    sys.stderr.write(f"bayesvm: {text}\n")


def _silent(text: str) -> None:
    """Say nothing."""
