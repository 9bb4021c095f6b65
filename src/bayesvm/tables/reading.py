"""Tables from files and back: CSV, TSV and Parquet, recognised by their names."""

from __future__ import annotations

import bz2
import difflib
import gzip
import lzma
import os
import zlib
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.pipeline import Pipeline

from bayesvm.files import replacing
from bayesvm.tables.errors import TableError
from bayesvm.tables.parsing import first_line, parse_text

__all__ = ["check_file_name", "read_table", "write_table"]

_TEXT = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
_PACKED = (".gz", ".bz2", ".xz", ".zst")


def read_table(
    path: str | os.PathLike[str], *, target: str | None = None, model: Pipeline | None = None
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
    model : Pipeline or None
        Fitted model (:func:`bayesvm.tables.fit_table`) that the table is for.
        What were categories or text in training is kept as it is written, so
        that "007" stays what it is, and the target is the model's.

    Returns
    -------
    DataFrame

    Raises
    ------
    TableError
        If there is no such file, or it cannot be read as a table with rows.
    """
    source = Path(path)
    if not source.exists():
        raise TableError(f"there is no file {str(path)!r}{_similar_file(source)}")
    if source.is_dir():
        raise TableError(f"{str(path)!r} is a folder; give the name of a file")
    kind, packed = check_file_name(source)
    as_written: list[str] = []
    if model is not None:
        columns = model["columns"]
        target = columns.target
        as_written = list(columns.spelled_columns_)
        if target is not None and model.classes_.dtype.kind == "U":
            as_written.append(target)
    try:
        if kind in _PARQUET:
            table = _read_parquet(source)
        else:
            with _opened(source, packed, "rb") as stream:
                content = stream.read()
            table = parse_text(content, str(path), _TEXT[kind], target, as_written)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise TableError(f"cannot read {str(path)!r}: {first_line(error)}") from error
    if table.empty:
        raise TableError(
            f"{str(path)!r} has {table.shape[1]} column(s) and no rows; write rows below the names"
        )
    return table


def write_table(table: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write a table as CSV, TSV or Parquet, by the name of the file; it is never half-written.

    The index is not written.
    """
    kind, packed = check_file_name(path, writing=True)
    with replacing(path) as part:
        if kind in _PARQUET:
            table.to_parquet(part, index=False)
        else:
            with _opened(part, packed, "wb") as stream:
                table.to_csv(stream, sep=_TEXT[kind], index=False, lineterminator="\n", encoding="utf-8")
    return Path(path)


def check_file_name(path: str | os.PathLike[str], writing: bool = False) -> tuple[str, str | None]:
    """The suffix that tells the format, and the compression if there is one."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packed = suffixes.pop() if suffixes and suffixes[-1] in _PACKED else None
    kind = suffixes[-1] if suffixes else ""
    if kind in _TEXT or (kind in _PARQUET and packed is None):
        return kind, packed
    advice = "use one of those endings"
    if kind in (".xlsx", ".xls", ".ods"):
        advice = "write a .csv, which spreadsheets open" if writing else "save it as CSV first"
    raise TableError(f"{str(path)!r} is not named like a table (.csv, .tsv or .parquet); {advice}")


def _opened(path: Path, packed: str | None, mode: Any) -> Any:
    """The bytes of a file, whatever they are packed in."""
    if packed == ".zst":
        import pyarrow

        stream = pyarrow.OSFile(str(path), mode)
        reading = pyarrow.CompressedInputStream if mode == "rb" else pyarrow.CompressedOutputStream
        return reading(stream, "zstd")
    openers: dict[str | None, Any] = {None: open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return openers[packed](path, mode)


def _read_parquet(source: Path) -> pd.DataFrame:
    import pyarrow

    try:
        table = pd.read_parquet(source)
    except pyarrow.ArrowInvalid as error:
        raise TableError(f"{str(source)!r} is not a Parquet file: {first_line(error)}") from error
    named = any(name is not None for name in table.index.names)
    return table.reset_index(drop=not named)


def _similar_file(source: Path) -> str:
    try:
        names = [entry.name for entry in source.parent.iterdir() if entry.is_file()]
    except OSError:
        return f"; the folder {str(source.parent)!r} cannot be read"
    found = difflib.get_close_matches(source.name, names, n=1)
    if found:
        return f"; did you mean {str(source.with_name(found[0]))!r}?"
    return f"; check its name and the folder, {str(source.parent.resolve())!r}"
