"""Questions and answers: from a person, from a pipe, from a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

from bayesvm.active.answers import Answer, read_answer
from bayesvm.active.labelling import Labelling
from bayesvm.cli.label_screen import Screen
from bayesvm.cli.progress import shown_progress
from bayesvm.cli.wording import percent
from bayesvm.tables.errors import closest
from bayesvm.tables.interrupts import held_interrupts

__all__ = ["ask_file", "ask_person", "ask_pipe"]

_Found = TypeVar("_Found")
# Rows from which on a person waits long enough to want to know what for.
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
            steps.start("Looking for the row that teaches most")
            row = _whole(labelling.next_row)
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
                screen.say(f"{answer.label!r} is no class yet{closest(answer.label, labelling.classes)}")
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
        Whether a name that is no class makes one; if not, it is refused.
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
                f"answer {number}, {answer.label!r}, is no class; the classes are "
                f"{', '.join(labelling.classes)}. The answers before it are saved in {labelling.file.path}"
            )
        if answer.kind == "undo":  # also when no row is left
            answered += _take_back(labelling, say)
            continue
        row = _whole(labelling.next_row)
        if row is None:
            say("no row is left to ask about")
            return
        answered += _told(labelling, row, answer, say)


def ask_file(labelling: Labelling, labels: Mapping[int, str], limit: int | None, quiet: bool) -> None:
    """Take answers from a table of labels as if a person knew it by heart."""
    answered = 0
    say = _silent if quiet else _remark
    while limit is None or answered < limit:
        row = _whole(labelling.next_row)
        if row is None:
            return
        answered += _told(labelling, row, Answer("label", labels[row]), say)


def _told(labelling: Labelling, row: int, answer: Answer, say: Callable[[str], None]) -> int:
    """Carry out an answer that no screen shows, and say so in a line."""
    belief = labelling.belief(row)
    change = _carry_out(labelling, row, answer, say)
    if answer.kind == "label":
        believed = "" if belief is None else f" (believed {percent(belief.of(answer.label))})"
        say(f"row {row + 1}: {answer.label}{believed}")
    elif answer.kind == "skip":
        say(f"row {row + 1}: skipped")
    return change


def _carry_out(labelling: Labelling, row: int, answer: Answer, say: Callable[[str], None]) -> int:
    """Label, skip or undo; by how much the number of answers has grown."""
    if answer.kind == "label":
        _whole(lambda: labelling.answer(row, answer.label))
        return 1
    if answer.kind == "skip":
        _whole(lambda: labelling.skip(row))
        return 0
    return _take_back(labelling, say)


def _take_back(labelling: Labelling, say: Callable[[str], None]) -> int:
    """Undo the last answer; by how much the number of answers has grown."""
    taken = _whole(labelling.undo)
    if taken is None:
        say("there is nothing to take back")
        return 0
    said = repr(taken.label) if taken.label else "skipped"
    say(f"row {taken.row + 1} was {said}; it is asked again")
    return -1 if taken.label else 0


def _confirmed(line: str | None, label: str) -> bool:
    """Whether a new class is wanted: yes, or its name once more."""
    words = " ".join((line or "").split()).casefold()
    return words in ("y", "yes", label.casefold())


def _whole(work: Callable[[], _Found]) -> _Found:
    """Do something that Ctrl-C must not cut in two; it counts afterwards."""
    with held_interrupts() as interrupts:
        found = work()
    if interrupts.pressed:
        raise KeyboardInterrupt
    return found


def _remark(text: str) -> None:
    sys.stderr.write(f"bayesvm: {text}\n")


def _silent(text: str) -> None:
    """Say nothing."""
