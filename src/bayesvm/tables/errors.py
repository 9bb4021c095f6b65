"""What a table can be told off for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["TableError", "TableWarning", "closest"]


class TableError(ValueError):
    """A table that cannot be used; the message is one line that says what to do."""


class TableWarning(UserWarning):
    """Something about a table that a user should know, though work goes on."""


def closest(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the known name nearest to the given one, or nothing."""
    by_lower = {k.casefold().strip(): k for k in known}
    found = difflib.get_close_matches(name.casefold().strip(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""
