"""Reading tables: CSV, TSV and Parquet files, whole or in blocks of rows.

Blocks have the types that the whole table would have, so that a prediction
does not depend on how its row was read.
"""

from __future__ import annotations

import difflib
import json
import lzma
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from pandas.api import types
from sklearn.pipeline import Pipeline

from bayesvm._svc import BayesianSVC
from bayesvm.tables._exceptions import TableError
from bayesvm.tables._formats import (
    PARQUET,
    SEPARATORS,
    TextTable,
    check_file_name,
    first_line,
    open_bytes,
    words_and_numbers,
)
from bayesvm.tables._pipeline import table_columns

EXAMPLE_FILE = Path(__file__).parent / "data" / "penguins.csv"
EXAMPLE_TARGET = "Sex"
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


def read_table(
    path: str | os.PathLike[str], *, target: str | None = None, model: Pipeline | BayesianSVC | None = None
) -> pd.DataFrame:
    """Read a CSV, TSV or Parquet file.

    Text files are UTF-8 (or UTF-16 with a mark at the start), possibly
    compressed (.gz, .bz2, .xz, .zst). In CSV files the separator may also be
    a semicolon, a tab or a bar, as spreadsheets write them; with semicolons
    a decimal comma is understood.

    Parameters
    ----------
    path : str or path-like
    target : str or None
        Column of a text file to predict, where only empty fields are missing:
        a class may be called "none" or "NA".
    model : Pipeline, BayesianSVC or None
        Fitted model that the table is for. If :func:`bayesvm.tables.fit_table` made
        it, what were categories or text in training is kept as it is written,
        so that "007" stays what it is, and the target is the model's.

    Returns
    -------
    DataFrame

    Raises
    ------
    TableError
        If there is no such file, or it cannot be read as a table with rows.
    """
    source, kind = _existing_file(path)
    with _reading_errors(path):
        table = read_parquet(source) if kind in PARQUET else _text_table(source, path, target, model).whole()
    _check_rows(path, len(table), table.shape[1])
    return table


def open_blocks(
    path: str | os.PathLike[str], *, target: str | None = None, model: Pipeline | BayesianSVC | None = None
) -> TableBlocks:
    """Open a file that need not fit into memory, to read it in blocks of rows.

    A first pass finds out how many rows there are and of which types the
    columns are, and raises whatever is wrong with the file. The blocks are
    those of the table that :func:`read_table` gives, value by value.

    Parameters
    ----------
    path, target, model : as for :func:`read_table`
    """
    source, kind = _existing_file(path)
    if not source.is_file():  # a pipe can be read only once
        return WholeTable(read_table(path, target=target, model=model))
    with _reading_errors(path):
        blocks: ParquetBlocks | TextBlocks
        blocks = (
            ParquetBlocks(source) if kind in PARQUET else TextBlocks(_text_table(source, path, target, model))
        )
    _check_rows(path, blocks.n_rows, len(blocks.columns))
    return blocks


def _existing_file(path: str | os.PathLike[str]) -> tuple[Path, str]:
    source = Path(path)
    if not source.exists():
        raise TableError(f"there is no file {str(path)!r}{_similar_file(source)}")
    if source.is_dir():
        raise TableError(f"{str(path)!r} is a folder; give the name of a file")
    return source, check_file_name(source)[0]


def _text_table(
    source: Path, path: str | os.PathLike[str], target: str | None, model: Pipeline | BayesianSVC | None
) -> TextTable:
    """The parser of a text file, which keeps what the model knows as text as it is written."""
    as_written: list[str] = []
    columns = None if model is None else table_columns(model)
    if model is not None and columns is not None:
        target = columns.target
        as_written = list(columns.spelled_columns_)
        if target is not None and model.classes_.dtype.kind == "U":
            as_written.append(target)
    kind, packed = check_file_name(source)
    return TextTable(
        partial(open_bytes, source, packed, "rb"), str(path), SEPARATORS[kind], target, as_written
    )


@contextmanager
def _reading_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of the system, of compression and of Arrow as one line."""
    try:
        yield
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise TableError(f"cannot read {str(path)!r}: {first_line(error)}") from error
    except ValueError as error:
        if isinstance(error, TableError) or type(error).__module__.split(".")[0] != "pyarrow":
            raise
        raise TableError(f"{str(path)!r} is not a Parquet file: {first_line(error)}") from error


def _check_rows(path: str | os.PathLike[str], n_rows: int, n_columns: int) -> None:
    if not n_rows or not n_columns:
        raise TableError(f"{str(path)!r} has {n_columns} column(s) and no rows; write rows below the names")


def _similar_file(source: Path) -> str:
    try:
        names = [entry.name for entry in source.parent.iterdir() if entry.is_file()]
    except OSError:
        return f"; the folder {str(source.parent)!r} cannot be read"
    found = difflib.get_close_matches(source.name, names, n=1)
    if found:
        return f"; did you mean {str(source.with_name(found[0]))!r}?"
    return f"; check its name and the folder, {str(source.parent.resolve())!r}"


def example_table() -> pd.DataFrame:
    """Penguins of the Palmer Archipelago (Gorman et al., 2014): predict whether each is male or female.

    Examples
    --------
    >>> table = example_table()
    >>> table.shape
    (344, 17)
    >>> table["Sex"].value_counts().to_dict()
    {'MALE': 168, 'FEMALE': 165}
    """
    return read_table(EXAMPLE_FILE)


# --- Blocks of text files.


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
        target = _TargetType()
        for block in text.blocks(BLOCK_ROWS, {}):
            self.columns = block.columns.tolist()
            self.n_rows += len(block)
            for name in self.columns:
                found.setdefault(name, set()).update(_content(block[name]))
            if text.target in found and text.target not in text.as_written:
                target.update(block[text.target])
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


class _TargetType:
    """Whether the words in all blocks of a target are numbers, or say that there is none."""

    def __init__(self) -> None:
        self._numbers, self._known = True, False

    @property
    def is_numbers(self) -> bool:
        return self._numbers and self._known

    def update(self, column: pd.Series) -> None:
        """Take a block into account."""
        words, numbers = words_and_numbers(column)
        self._known = self._known or bool(words.notna().any())
        self._numbers = self._numbers and bool(numbers.notna().equals(words.notna()))


def _content(column: pd.Series) -> set[str]:
    """What pandas found among the values of a block."""
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
    """The type of the whole column; None: pandas finds it in every block."""
    if "large" in content:
        return _ALONE
    if "text" in content or ("bool" in content and content & {"int", "float"}):
        return str
    if "bool" in content:
        return object if "missing" in content else None
    if "float" in content or {"int", "missing"} <= content:
        return np.float64
    return None


# --- Parquet files.


def read_parquet(source: Path) -> pd.DataFrame:
    """The whole file; an index with a name becomes a column."""
    return _without_index(pd.read_parquet(source))


class ParquetBlocks:
    """Blocks of a file, of the types that the whole table has in pandas.

    pandas has whole numbers without gaps as such and with gaps as floating
    point, so a first pass looks for gaps.
    """

    def __init__(self, source: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        self._source = source
        with pyarrow.parquet.ParquetFile(source) as file:
            schema = file.schema_arrow
            self.n_rows = int(file.metadata.num_rows)
            plain = [
                field.name
                for field in schema
                if pyarrow.types.is_integer(field.type) or pyarrow.types.is_boolean(field.type)
            ]
            self._gapped: set[str] = set()
            for batch in file.iter_batches(BLOCK_ROWS, columns=plain):
                self._gapped |= {name for name in plain if batch.column(name).null_count}
        self.columns: list[str] = schema.names
        self.arrow_types: Mapping[str, Any] = {
            field.name: field.type for field in schema if not pyarrow.types.is_dictionary(field.type)
        }

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Blocks, equal to those rows of the whole table."""
        import pyarrow
        import pyarrow.parquet

        start = 0
        with pyarrow.parquet.ParquetFile(self._source, pre_buffer=False) as file:
            for batch in file.iter_batches(BLOCK_ROWS):
                table = pyarrow.Table.from_batches([batch])
                block = _without_index(_with_index_from(table, start).to_pandas())
                for name in self._gapped & set(block.columns):
                    # Types that have room for gaps are left alone.
                    if isinstance(block[name].dtype, np.dtype) and block[name].dtype.kind in "biu":
                        room = object if block[name].dtype.kind == "b" else np.float64
                        block[name] = block[name].astype(room)
                yield block.set_axis(pd.RangeIndex(start, start + len(block)))
                start += len(block)


def _with_index_from(table: Any, start: int) -> Any:
    """The rows of a batch with the part of a counting index that belongs to them."""
    metadata = table.schema.metadata or {}
    if b"pandas" not in metadata:
        return table
    index_metadata = json.loads(metadata[b"pandas"])
    for index in index_metadata.get("index_columns", []):
        if isinstance(index, dict) and index.get("kind") == "range":
            first = index["start"] + start * index["step"]
            index |= {"start": first, "stop": first + table.num_rows * index["step"]}
    return table.replace_schema_metadata({**metadata, b"pandas": json.dumps(index_metadata).encode()})


def _without_index(table: pd.DataFrame) -> pd.DataFrame:
    named = any(name is not None for name in table.index.names)
    return table.reset_index(drop=not named)
