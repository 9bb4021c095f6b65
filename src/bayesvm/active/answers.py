"""What a person typed, in terms of classes and commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Answer", "numbered", "read_answer"]

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
