"""Tables larger than memory: blocks of rows, of the very types that the whole table would have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
from pandas.api import types

from bayesvm.tables.parsing import TextTable, words_and_numbers

__all__ = ["BLOCK_ROWS", "TableBlocks", "TextBlocks", "WholeTable"]

# Rows of a block: enough for large products, few enough for any memory. Predictions go by blocks of
# so many rows wherever a table comes from, so that they are the same to the bit.
BLOCK_ROWS = 8192


class TableBlocks(Protocol):
    """A table that can be read a block of rows at a time, as often as wanted.

    Attributes
    ----------
    n_rows : int
    arrow_types : mapping of str to pyarrow.DataType
        Of columns whose type cannot be seen in every block.
    """

    @property
    def n_rows(self) -> int: ...

    @property
    def arrow_types(self) -> Mapping[str, Any]: ...

    def __iter__(self) -> Iterator[pd.DataFrame]: ...


@dataclass(frozen=True)
class WholeTable:
    """A table in memory."""

    table: pd.DataFrame
    arrow_types: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[pd.DataFrame]:
        for start in range(0, len(self.table), BLOCK_ROWS):
            yield self.table.iloc[start : start + BLOCK_ROWS]


class TextBlocks:
    """Blocks of a text file.

    pandas guesses the type of a column from its values. So a first pass over
    the file finds out what it would guess from all of them.

    Parameters
    ----------
    text : TextTable
    """

    def __init__(self, text: TextTable) -> None:
        self._text = text
        self.columns: list[str] = []
        self.n_rows = 0
        found: dict[str, set[str]] = {}
        target = _Target()
        for block in text.blocks(BLOCK_ROWS, {}):
            self.columns = block.columns.tolist()
            self.n_rows += len(block)
            for name in self.columns:
                found.setdefault(name, set()).update(_content(block[name]))
            if text.target in found and text.target not in text.as_written:
                target.look_at(block[text.target])
        self._types = {name: _type_of(found[name]) for name in found if name not in text.as_written}
        kind, words = self._types.get(text.target or ""), found.get(text.target or "", set())
        self._target_is_numbers = target.is_numbers and (
            kind is object or (kind is str and "bool" not in words)
        )

    @property
    def arrow_types(self) -> Mapping[str, Any]:
        """Truth values with gaps are objects, and a block of gaps alone has no type."""
        gapped = [name for name, kind in self._types.items() if kind is object]
        if not gapped:
            return {}
        import pyarrow

        return dict.fromkeys(gapped, pyarrow.bool_())

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Blocks, equal to those rows of the whole table."""
        forced = {name: kind for name, kind in self._types.items() if kind in (str, np.float64)}
        # Each by itself, so that only one column is in memory as a whole.
        alone = {
            name: self._text.whole([self.columns.index(name)])[name]
            for name, kind in self._types.items()
            if kind == _ALONE
        }
        for block in self._text.blocks(BLOCK_ROWS, forced):
            for name, kind in self._types.items():
                if kind is object:
                    block[name] = block[name].astype(object)
                elif kind == _ALONE:
                    block[name] = alone[name].loc[block.index]
            if self._target_is_numbers:
                _, numbers = words_and_numbers(block[self._text.target])
                block[self._text.target] = numbers.astype(np.float64)
            yield block


class _Target:
    """Whether the words in all blocks of a target are numbers, or say that there is none."""

    def __init__(self) -> None:
        self._numbers, self._known = True, False

    @property
    def is_numbers(self) -> bool:
        return self._numbers and self._known

    def look_at(self, column: pd.Series) -> None:
        """Take in a block."""
        words, numbers = words_and_numbers(column)
        self._known = self._known or bool(words.notna().any())
        self._numbers = self._numbers and bool(numbers.notna().equals(words.notna()))


def _content(column: pd.Series) -> set[str]:
    """What pandas has found among the values of a block."""
    missing = {"missing"} if column.isna().any() else set()
    if types.is_bool_dtype(column.dtype):
        return {"bool"}
    if types.is_float_dtype(column.dtype):
        return missing if column.isna().all() else missing | {"float"}
    if types.is_integer_dtype(column.dtype):
        return {"int"} if column.dtype == np.int64 else {"large"}
    inside = types.infer_dtype(column, skipna=True)
    if inside == "string" and column.str.fullmatch(_LARGE).any():
        return missing | {"large"}
    return missing | {"boolean": {"bool"}, "integer": {"large"}}.get(inside, {"text"})


# Whole numbers beyond 64 bits follow rules of their own: where there may be one, a column is read by itself.
_LARGE = r"[+-]?\d{19,}"
_ALONE = "alone"


def _type_of(content: set[str]) -> Any:
    """The type that the whole column has; None: that of every block."""
    if "large" in content:
        return _ALONE
    if "text" in content or ("bool" in content and content & {"int", "float"}):
        return str
    if "bool" in content:
        return object if "missing" in content else None
    if "float" in content or {"int", "missing"} <= content:
        return np.float64
    return None
