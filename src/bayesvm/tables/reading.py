"""Tables from files: CSV, TSV and Parquet, recognised by their names, whole or in blocks of rows."""

from __future__ import annotations

import difflib
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pandas as pd
from sklearn.pipeline import Pipeline

from bayesvm.estimators.bayesian_svc import BayesianSVC
from bayesvm.tables.blocks import TableBlocks, TextBlocks, WholeTable
from bayesvm.tables.errors import TableError
from bayesvm.tables.formats import PARQUET, SEPARATORS, check_file_name, opened
from bayesvm.tables.parquet import ParquetBlocks, read_parquet
from bayesvm.tables.parsing import TextTable, first_line
from bayesvm.tables.plain_models import table_columns

__all__ = ["open_blocks", "read_table"]


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
    source, kind = _found(path)
    with _said(path):
        table = read_parquet(source) if kind in PARQUET else _text(source, path, target, model).whole()
    _check_rows(path, len(table), table.shape[1])
    return table


def open_blocks(
    path: str | os.PathLike[str], *, target: str | None = None, model: Pipeline | BayesianSVC | None = None
) -> TableBlocks:
    """A file that need not fit into memory, to be read in blocks of rows.

    A first pass finds out how many rows there are and of which types the
    columns are; whatever is wrong with the file is said then. The blocks are
    those of the table that :func:`read_table` gives, value by value.

    Parameters
    ----------
    path, target, model : as for :func:`read_table`
    """
    source, kind = _found(path)
    if not source.is_file():  # a pipe can be read only once
        return WholeTable(read_table(path, target=target, model=model))
    with _said(path):
        blocks: ParquetBlocks | TextBlocks
        blocks = ParquetBlocks(source) if kind in PARQUET else TextBlocks(_text(source, path, target, model))
    _check_rows(path, blocks.n_rows, len(blocks.columns))
    return blocks


def _found(path: str | os.PathLike[str]) -> tuple[Path, str]:
    source = Path(path)
    if not source.exists():
        raise TableError(f"there is no file {str(path)!r}{_similar_file(source)}")
    if source.is_dir():
        raise TableError(f"{str(path)!r} is a folder; give the name of a file")
    return source, check_file_name(source)[0]


def _text(
    source: Path, path: str | os.PathLike[str], target: str | None, model: Pipeline | BayesianSVC | None
) -> TextTable:
    """The text of a file as it is meant for a model."""
    as_written: list[str] = []
    columns = None if model is None else table_columns(model)
    if model is not None and columns is not None:
        target = columns.target
        as_written = list(columns.spelled_columns_)
        if target is not None and model.classes_.dtype.kind == "U":
            as_written.append(target)
    kind, packed = check_file_name(source)
    return TextTable(partial(opened, source, packed, "rb"), str(path), SEPARATORS[kind], target, as_written)


@contextmanager
def _said(path: str | os.PathLike[str]) -> Iterator[None]:
    """What goes wrong with the bytes of a file, in a line."""
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
