"""Tables to files: CSV, TSV and Parquet, at once or block by block, never half-written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from bayesvm.files import replacing
from bayesvm.tables.formats import PARQUET, SEPARATORS, check_file_name, opened

__all__ = ["CsvWriter", "TableWriter", "table_writer", "write_table"]

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

    It is in its place when all went well; else nothing is.

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
            with opened(part, packed, "wb") as stream:
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
        """Write what waits."""
        if self._waiting:
            self._write_group()

    def close(self) -> None:
        """Let go of the file."""
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
