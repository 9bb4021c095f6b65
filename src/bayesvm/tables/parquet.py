"""Parquet files: whole, and a block of rows at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesvm.tables.blocks import BLOCK_ROWS

__all__ = ["ParquetBlocks", "read_parquet"]


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
                block = _without_index(_at(table, start).to_pandas())
                for name in self._gapped & set(block.columns):
                    # Types that have room for gaps are left alone.
                    if isinstance(block[name].dtype, np.dtype) and block[name].dtype.kind in "biu":
                        room = object if block[name].dtype.kind == "b" else np.float64
                        block[name] = block[name].astype(room)
                yield block.set_axis(pd.RangeIndex(start, start + len(block)))
                start += len(block)


def _at(table: Any, start: int) -> Any:
    """The rows of a batch with the part of a counting index that belongs to them."""
    metadata = table.schema.metadata or {}
    if b"pandas" not in metadata:
        return table
    said = json.loads(metadata[b"pandas"])
    for index in said.get("index_columns", []):
        if isinstance(index, dict) and index.get("kind") == "range":
            first = index["start"] + start * index["step"]
            index |= {"start": first, "stop": first + table.num_rows * index["step"]}
    return table.replace_schema_metadata({**metadata, b"pandas": json.dumps(said).encode()})


def _without_index(table: pd.DataFrame) -> pd.DataFrame:
    named = any(name is not None for name in table.index.names)
    return table.reset_index(drop=not named)
