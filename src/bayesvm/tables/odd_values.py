"""What is said about values that had to be given up, once per column however many blocks there are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from bayesvm.tables.errors import TableWarning

__all__ = ["Notes", "OddValues"]

_SHOWN = 40


class OddValues(TableWarning):
    """Values of a column that the model cannot use.

    Parameters
    ----------
    column : str
    count : int
    example : str
        The first of them.
    what : str
        What is the matter with them.
    """

    def __init__(self, column: str, count: int, example: str, what: str) -> None:
        self.column, self.count, self.example, self.what = column, count, example, what
        shown = example if len(example) <= _SHOWN else example[: _SHOWN - 3] + "..."
        noun = "value" if count == 1 else "values"
        super().__init__(f"column {column!r}: {count} {noun} such as {shown!r} {what}")


class Notes:
    """Warnings held back while blocks are worked on, and given once at the end."""

    def __init__(self) -> None:
        self._odd: dict[tuple[str, str], OddValues] = {}
        self._others: dict[tuple[type[Warning], str], Warning] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take note of warnings instead of giving them."""
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
        """Warn of all that was noted."""
        for message in (*self._odd.values(), *self._others.values()):
            warnings.warn(message, stacklevel=3)
