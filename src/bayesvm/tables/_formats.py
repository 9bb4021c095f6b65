"""File formats of tables: formats by file name, parsing of text, and writing.

Text files vary in separator, encoding, compression and decimal sign; the
parser finds these out and names the line where a file is wrong.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from bayesvm._files import replacing
from bayesvm.tables._exceptions import TableError
from bayesvm.tables._kinds import MISSING_WORDS

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
_PACKED = (".gz", ".bz2", ".xz", ".zst")


def check_file_name(path: str | os.PathLike[str], writing: bool = False) -> tuple[str, str | None]:
    """The suffix that tells the format, and the compression if there is one."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packed = suffixes.pop() if suffixes and suffixes[-1] in _PACKED else None
    kind = suffixes[-1] if suffixes else ""
    if kind in SEPARATORS or (kind in PARQUET and packed is None):
        return kind, packed
    advice = "use one of those endings"
    if kind in (".xlsx", ".xls", ".ods"):
        advice = "write a .csv, which spreadsheets open" if writing else "save it as CSV first"
    raise TableError(f"{str(path)!r} is not named like a table (.csv, .tsv or .parquet); {advice}")


def open_bytes(path: Path, packed: str | None, mode: Any) -> Any:
    """Open the bytes of a file, compressed or not."""
    if packed == ".zst":
        import pyarrow

        stream = pyarrow.OSFile(str(path), mode)
        reading = pyarrow.CompressedInputStream if mode == "rb" else pyarrow.CompressedOutputStream
        return reading(stream, "zstd")
    openers: dict[str | None, Any] = {None: open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return openers[packed](path, mode)


# --- Parsing of text.


_SEPARATORS = ",;\t|"
_BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# pandas knows a few more ways in which programs write that there is no number.
_PROGRAMS = ("#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "-NaN", "-nan")
_MISSING = sorted(
    {form for word in MISSING_WORDS for form in (word, word.upper(), word.title())} | {*_PROGRAMS, "NaN"}
)
_DECIMAL_COMMA = re.compile(r"(?:^|;)[-+]?\d+,\d+(?:;|$)", re.MULTILINE)
_SNIFFED = 100_000


class TextTable:
    """The table in a text file.

    Parameters
    ----------
    opened : callable
        Opens the bytes of the file, from the first.
    name : str
        Of the file, for messages.
    separator : str
        A comma stands for any that the first line is divided by.
    target : str or None
        Column where only empty fields are missing.
    as_written : sequence of str
        Columns to keep as text.

    Raises
    ------
    TableError
        If the first line names no columns, or some twice. Reading raises it
        for whatever is wrong below.
    """

    def __init__(
        self,
        opened: Callable[[], Any],
        name: str,
        separator: str,
        target: str | None = None,
        as_written: Sequence[str] = (),
    ) -> None:
        self._opened, self._name = opened, name
        self.target, self.as_written = target, tuple(as_written)
        with opened() as stream:
            content = stream.read(_SNIFFED)
        self._encoding = _BOMS.get(content[:2], "utf-8-sig")
        start = content.decode(self._encoding, errors="ignore")
        self._separator = _separator(start) if separator == "," else separator
        comma = self._separator == ";" and _DECIMAL_COMMA.search(start)
        self._decimal = "," if comma else "."
        with self._read(header=None, nrows=1, dtype=str) as header:
            self.names: list[str] = header.iloc[0].tolist()
        _refuse_duplicates(self.names, name)

    def whole(self, columns: Sequence[int] | None = None) -> pd.DataFrame:
        """All rows at once, of all columns or some, the type of each guessed from all of its values."""
        with self._read(**self._options({}), usecols=columns) as table:
            if self.target in table and self.target not in self.as_written:
                table[self.target] = _numbers_if_all_are(table[self.target])
            return table

    def blocks(self, n_rows: int, types: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
        """Some rows at a time, in the given types, or else in what the values of a block look like."""
        with self._read(**self._options(types), chunksize=n_rows) as reader:
            yield from reader

    def _options(self, types: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "decimal": self._decimal,
            "dtype": {**types, **dict.fromkeys(self.as_written, pd.StringDtype(na_value=np.nan))},
            # Fields of columns without a name are looked up under the name that pandas gives them.
            "na_values": {
                column or f"Unnamed: {i}": [""] if column == self.target else _MISSING
                for i, column in enumerate(self.names)
            },
        }

    @contextmanager
    def _read(self, **options: Any) -> Iterator[Any]:
        """Read with pandas while the file is open; its errors become ours."""
        try:
            with self._opened() as stream, warnings.catch_warnings():
                # Rows longer than the header are cut off with this warning only.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                yield pd.read_csv(
                    stream,
                    sep=self._separator,
                    index_col=False,
                    skipinitialspace=True,
                    low_memory=False,
                    encoding=self._encoding,
                    keep_default_na=False,
                    **options,
                )
        except UnicodeDecodeError as error:
            raise TableError(
                f"{self._name!r} is not UTF-8 text; save it again as 'CSV UTF-8', or convert it: "
                "iconv -f latin1 -t utf-8"
            ) from error
        except pd.errors.EmptyDataError as error:
            raise TableError(
                f"{self._name!r} is empty; write the names of the columns in its first line, and rows below"
            ) from error
        except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
            if isinstance(error, TableError):
                raise
            raise TableError(self._describe_error(error)) from error

    def _describe_error(self, error: Exception) -> str:
        """The first line with too many fields, or else what the parser said."""
        separator = self._separator
        try:
            with self._opened() as stream, io.TextIOWrapper(stream, self._encoding, newline="") as text:
                reader = csv.reader(text, delimiter=separator, skipinitialspace=True)
                rows = ((reader.line_num, len(row)) for row in reader if row)
                _, expected = next(rows)
                for line, fields in rows:
                    if fields > expected:
                        return (
                            f"line {line} of {self._name!r} has {fields} fields, but the first line names "
                            f"{expected}; put values that contain {separator!r} between double quotes, or "
                            "name all columns"
                        )
        except (csv.Error, StopIteration):
            pass
        return f"{self._name!r} is not a table of text: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


def _numbers_if_all_are(column: pd.Series) -> pd.Series:
    """A target of numbers, where a word such as "NA" cannot be a class; any other as it is."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    words, numbers = words_and_numbers(column)
    return numbers if words.notna().any() and numbers.notna().equals(words.notna()) else column


def words_and_numbers(column: pd.Series) -> tuple[pd.Series, pd.Series]:
    """The values without those that stand for a missing one, and those of them that are numbers."""
    words = column.astype(object).where(~column.astype(str).str.casefold().isin(MISSING_WORDS), np.nan)
    return words, pd.to_numeric(words, errors="coerce")


def _separator(start: str) -> str:
    """The separator of the first line, quoted parts aside."""
    first = next((line for line in start.splitlines() if line.strip()), "")
    first = re.sub(r'"[^"]*"', "", first)
    return max(_SEPARATORS, key=first.count)


def _refuse_duplicates(names: list[str], file: str) -> None:
    for i, name in enumerate(names):
        if name and name in names[:i]:
            raise TableError(f"{file!r} has more than one column named {name!r}; rename or remove one")


# --- Writing, at once or block by block; a file is complete or not there.


# Bytes of a group of rows in a Parquet file: readers work through one at a time.
_GROUP_BYTES = 16 * 2**20


class TableWriter(Protocol):
    """Takes the blocks of a table in their order."""

    def write(self, block: pd.DataFrame) -> None: ...


def write_table(table: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write a table as CSV, TSV or Parquet, by the name of the file; it is never half-written.

    The index is not written.
    """
    with table_writer(path) as writer:
        writer.write(table)
    return Path(path)


@contextmanager
def table_writer(
    path: str | os.PathLike[str], arrow_types: Mapping[str, Any] | None = None
) -> Iterator[TableWriter]:
    """A file that takes blocks of rows, as CSV, TSV or Parquet by its name.

    The file is put in place only if all went well.

    Parameters
    ----------
    path : str or path-like
    arrow_types : mapping of str to pyarrow.DataType or None
        Of columns whose type the first block may not show.
    """
    kind, packed = check_file_name(path, writing=True)
    with replacing(path) as part:
        if kind in PARQUET:
            writer = _ParquetWriter(part, arrow_types or {})
            try:
                yield writer
                writer.finish()
            finally:
                writer.close()
        else:
            with open_bytes(part, packed, "wb") as stream:
                yield CsvWriter(stream, SEPARATORS[kind])


class CsvWriter:
    """Blocks as text, with the names of the columns above the first."""

    def __init__(self, stream: Any, separator: str = ",") -> None:
        self._stream, self._separator, self._first = stream, separator, True

    def write(self, block: pd.DataFrame) -> None:
        """Add rows: UTF-8 and plain line ends on any system."""
        block.to_csv(
            self._stream,
            sep=self._separator,
            index=False,
            header=self._first,
            lineterminator="\n",
            encoding="utf-8",
        )
        self._first = False


class _ParquetWriter:
    """Blocks gathered into groups of rows."""

    def __init__(self, path: Path, arrow_types: Mapping[str, Any]) -> None:
        self._path, self._types = path, arrow_types
        self._waiting: list[Any] = []
        self._schema: Any = None
        self._file: Any = None

    def write(self, block: pd.DataFrame) -> None:
        """Add rows."""
        import pyarrow

        if self._schema is None:
            self._schema = self._schema_of(block)
        self._waiting.append(pyarrow.Table.from_pandas(block, self._schema, preserve_index=False))
        if sum(table.nbytes for table in self._waiting) >= _GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        """Write the rows still waiting for a group."""
        if self._waiting:
            self._write_group()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write_group(self) -> None:
        import pyarrow
        import pyarrow.parquet

        if self._file is None:
            self._file = pyarrow.parquet.ParquetWriter(self._path, self._schema, compression="snappy")
        self._file.write_table(pyarrow.concat_tables(self._waiting))
        self._waiting = []

    def _schema_of(self, block: pd.DataFrame) -> Any:
        """The types of the first block, and what is known of columns that have no value in it."""
        import pyarrow
        import pyarrow.types as types

        schema = pyarrow.Schema.from_pandas(block, preserve_index=False)
        for i, field in enumerate(schema):
            if types.is_null(field.type) and field.name in self._types:
                schema = schema.set(i, field.with_type(self._types[field.name]))
        return schema
