"""Warnings of the libraries as notes for the user."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collected_notes", "print_notes"]


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Collect what libraries say to users, each message once; what they say to programmers is dropped."""
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
