"""Exceptions and warnings about tables, and how warnings of many blocks become one."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class TableError(ValueError):
    """A table that cannot be used; the message is one line that says what to do."""


class TableWarning(UserWarning):
    """Something about a table that a user should know, though work goes on."""


def closest(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the known name nearest to the given one, or nothing."""
    by_lower = {k.casefold().strip(): k for k in known}
    found = difflib.get_close_matches(name.casefold().strip(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""


_SHOWN = 40


class OddValues(TableWarning):
    """Values of a column that the model cannot use; one warning per column and reason.

    Parameters
    ----------
    column : str
    count : int
    example : str
        The first of them.
    what : str
        Why the model cannot use them.
    """

    def __init__(self, column: str, count: int, example: str, what: str) -> None:
        self.column, self.count, self.example, self.what = column, count, example, what
        shown = example if len(example) <= _SHOWN else example[: _SHOWN - 3] + "..."
        noun = "value" if count == 1 else "values"
        super().__init__(f"column {column!r}: {count} {noun} such as {shown!r} {what}")


class HeldWarnings:
    """Warnings held back while blocks are worked on, and given once at the end."""

    def __init__(self) -> None:
        self._odd: dict[tuple[str, str], OddValues] = {}
        self._others: dict[tuple[type[Warning], str], Warning] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Collect warnings instead of giving them."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for warning in caught:
            message = warning.message
            if isinstance(message, OddValues):
                key = (message.column, message.what)
                known = self._odd.get(key)
                if known is not None:
                    message = OddValues(*key[:1], known.count + message.count, known.example, message.what)
                self._odd[key] = message
            elif isinstance(message, Warning):
                self._others.setdefault((type(message), str(message)), message)

    def give(self) -> None:
        """Give all warnings that were collected."""
        for message in (*self._odd.values(), *self._others.values()):
            warnings.warn(message, stacklevel=3)
