"""Answers as lines of a file to which lines are only ever added.

An answer is one line, written by one call and forced to the disk before the
next question. Whatever ends the process, the file holds every answer given
before, and at most one torn line at its end, which the next run removes.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

LABEL, SKIP, UNDO = "label", "skip", "undo"
_MARKS = (LABEL, SKIP, UNDO)


@dataclass(frozen=True)
class Entry:
    """One line of a label file.

    Attributes
    ----------
    row : int
        Row of the pool, from 0; in the file the first row is 1.
    label : str
        Empty unless ``mark`` is "label".
    mark : str
        "label", "skip", or "undo", which takes back the latest entry of the row.
    check : str
        A digest of the row's values, to notice that the pool has changed.
    """

    row: int
    label: str = ""
    mark: str = LABEL
    check: str = ""


def standing(entries: Iterable[Entry]) -> list[Entry]:
    """The latest entry of each row, in order of time, without those taken back.

    Examples
    --------
    >>> said = [Entry(4, "ant"), Entry(7, mark="skip"), Entry(4, mark="undo"), Entry(9, "bee")]
    >>> [(entry.row, entry.label) for entry in standing(said)]
    [(7, ''), (9, 'bee')]
    """
    last: dict[int, Entry] = {}
    for entry in entries:
        last.pop(entry.row, None)
        if entry.mark != UNDO:
            last[entry.row] = entry
    return list(last.values())


class LabelFile:
    """A file of answers, held by one process at a time.

    A CSV file with the columns ``row``, the name of the target, ``answer``
    ("label", "skip" or "undo") and ``check``. It is made with the first
    answer.

    Parameters
    ----------
    path : path-like
    target : str
        Name of the column that the labels are for.

    Raises
    ------
    ValueError
        If the file is something else, or another process holds it.
    """

    def __init__(self, path: str | os.PathLike[str], target: str) -> None:
        self.path = Path(path)
        self.target = target
        self._descriptor: int | None = None
        self.entries: list[Entry] = []
        if self.path.exists():
            self._open()

    def add(self, entry: Entry) -> None:
        """Write an answer; it is on the disk when this returns."""
        if "\n" in entry.label or "\r" in entry.label:
            raise ValueError(f"the label {entry.label!r} has more than one line; give a name of one line")
        if self._descriptor is None:
            self._open()
        self._write(_line([str(entry.row + 1), entry.label, entry.mark, entry.check]))
        self.entries.append(entry)

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(self.path, flags, 0o644)
        try:
            _lock(self._descriptor, self.path)
            content = self.path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            header = _line(_header(self.target))
            if whole:
                self.entries = _parsed(whole, self.path, self.target)
            elif content and not header.startswith(content):
                raise ValueError(_not_ours(self.path))
            if len(whole) < len(content):  # a process was killed while it wrote this line
                os.ftruncate(self._descriptor, len(whole))
            if not whole:
                self._write(header)
                _sync_folder(self.path.parent)
        except BaseException:
            self.close()
            raise

    def _write(self, line: bytes) -> None:
        descriptor = self._descriptor
        assert descriptor is not None
        written = os.write(descriptor, line)
        if written != len(line):  # the disk is full: take the part back
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
            raise OSError(f"{self.path}: could not write a whole line; is the disk full?")
        os.fsync(descriptor)


def is_label_file(path: str | os.PathLike[str], target: str) -> bool:
    """Whether a file begins as a label file of this target does, also after a spreadsheet has saved it."""
    line = _line(_header(target)).rstrip(b"\n")
    with Path(path).open("rb") as file:
        start = file.read(len(line) + 5).removeprefix(b"\xef\xbb\xbf")
    return start.startswith((line + b"\n", line + b"\r\n"))


def read_entries(path: str | os.PathLike[str], target: str) -> list[Entry]:
    """Answers in a label file, which is neither locked nor changed."""
    content = Path(path).read_bytes()
    return _parsed(content[: content.rfind(b"\n") + 1], Path(path), target)


def _header(target: str) -> list[str]:
    return ["row", target, "answer", "check"]


def _line(fields: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue().encode()


def _parsed(content: bytes, path: Path, target: str) -> list[Entry]:
    try:
        lines = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(_not_ours(path)) from error
    header, *body = lines
    expected = _header(target)
    if header != expected:
        if len(header) == len(expected) and header[:1] + header[2:] == expected[:1] + expected[2:]:
            raise ValueError(
                f"{str(path)!r} holds labels of {header[1]!r}, not of {target!r}; give --labels another name"
            )
        raise ValueError(_not_ours(path))
    entries = []
    for number, fields in enumerate(body, 2):
        if not fields:
            continue
        row, label, mark, check = (*fields, "", "", "", "")[:4]
        if not row.isdecimal() or int(row) < 1 or mark not in _MARKS or (mark == LABEL) != bool(label):
            raise ValueError(
                f"line {number} of {str(path)!r} is not an answer: {','.join(fields)!r}; correct or delete it"
            )
        entries.append(Entry(int(row) - 1, label, mark, check))
    return entries


def _not_ours(path: Path) -> str:
    return f"{str(path)!r} is not a label file written by 'bayesvm label'; give --labels another name"


def _lock(descriptor: int, path: Path) -> None:
    """Hold the file until the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows: users must see to it themselves
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ValueError(
            f"{str(path)!r} is in use by another 'bayesvm label'; end that one first, or give --labels"
        ) from error


def _sync_folder(folder: Path) -> None:
    """Force the name of a new file to the disk, where folders can be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# --- Typed answers as classes and commands.


_COMMANDS = {
    "u": "undo",
    "undo": "undo",
    "s": "skip",
    "skip": "skip",
    "?": "help",
    "h": "help",
    "help": "help",
    "q": "quit",
    "quit": "quit",
    "exit": "quit",
}


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes
    ----------
    kind : str
        "label", "new" (a name that is no class yet), "undo", "skip", "help",
        "quit", "nothing", or "no such number".
    label : str
        The class, the new name or the number; empty for commands.
    """

    kind: str
    label: str = ""


def numbered(classes: Sequence[str]) -> bool:
    """Whether classes may be given by number: not if one of them is called like a number."""
    return bool(classes) and not any(_is_number(label.lstrip("+-")) for label in classes)


def read_answer(text: str, classes: Sequence[str]) -> Answer:
    """Read an answer.

    A name that is a class wins over everything else, then its number, then
    commands. With a colon in front it is a command even if a class is called
    "s". Upper and lower case matter only where two classes differ by them.

    Examples
    --------
    >>> read_answer("2", ["ant", "bee"]).label, read_answer("ANT", ["ant", "bee"]).label
    ('bee', 'ant')
    >>> read_answer("u", ["ant", "bee"]).kind, read_answer("cow", ["ant", "bee"]).kind
    ('undo', 'new')
    """
    if text.strip() in classes and text.strip():
        return Answer("label", text.strip())
    text = _plain(text)
    if not text:
        return Answer("nothing")
    alike = [label for label in classes if _plain(label).casefold() == text.casefold()]
    if len(alike) == 1:
        return Answer("label", alike[0])
    if text[0] == ":" and text[1:].strip().casefold() in _COMMANDS:
        return Answer(_COMMANDS[text[1:].strip().casefold()])
    if numbered(classes) and _is_number(text):
        if 1 <= int(text) <= len(classes):
            return Answer("label", classes[int(text) - 1])
        return Answer("no such number", text)
    if text.casefold() in _COMMANDS:
        return Answer(_COMMANDS[text.casefold()])
    return Answer("new", text)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
