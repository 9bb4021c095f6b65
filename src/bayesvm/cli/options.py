"""Checks that several commands make of their options."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["check_place", "check_share", "names_in"]


def check_share(option: str, value: float) -> None:
    """Refuse what is not strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{option} {value:g} is not valid; give a share between 0 and 1, such as 0.01")


def check_place(option: str, path: Path, taken: dict[Path, str], overwrite: bool = True) -> None:
    """Refuse a file that cannot be written, or must not; ``taken`` says what is at some places."""
    target = path.resolve()
    folder = str(target.parent)
    if target in taken:
        raise ValueError(f"{option} {str(path)!r} is {taken[target]} already; give another name")
    if target.is_dir():
        raise ValueError(f"{option} {str(path)!r} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise ValueError(f"{option}: the folder {folder!r} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{option}: you may not write into the folder {folder!r}; choose another")
    if target.exists() and not overwrite:
        raise ValueError(f"{option} {str(path)!r} exists; give another name, or allow --overwrite")


def names_in(option: str, text: str | None) -> tuple[str, ...]:
    """The names of a list with commas.

    Examples
    --------
    >>> names_in("--classes", "ant, bee")
    ('ant', 'bee')
    """
    if text is None:
        return ()
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise ValueError(f"{option} {text!r} has an empty name; give names with one comma between two")
    doubled = [name for i, name in enumerate(names) if name in names[:i]]
    if doubled:
        raise ValueError(f"{option} names {doubled[0]!r} twice; give every name once")
    return names
