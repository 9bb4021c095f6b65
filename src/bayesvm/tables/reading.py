"""Tables from files and back: CSV, TSV and Parquet, recognised by their names."""

from __future__ import annotations

import bz2
import difflib
import gzip
import io
import lzma
import os
import re
import warnings
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from bayesvm.files import replacing
from bayesvm.tables.errors import TableError
from bayesvm.tables.kinds import MISSING_WORDS

__all__ = ["check_file_name", "read_table", "write_table"]

_TEXT = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
_PACKED = (".gz", ".bz2", ".xz", ".zst")
_SEPARATORS = ",;\t|"
_BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_MISSING = sorted({form for word in MISSING_WORDS for form in (word, word.upper(), word.title())})
_DECIMAL_COMMA = re.compile(r"(?:^|;)[-+]?\d+,\d+(?:;|$)", re.MULTILINE)
_SNIFFED = 100_000


def read_table(path: str | os.PathLike[str], as_written: Iterable[str] = ()) -> pd.DataFrame:
    """Read a CSV, TSV or Parquet file.

    Text files are UTF-8 (or UTF-16 with a mark at the start), possibly
    compressed (.gz, .bz2, .xz, .zst). In CSV files the separator may also be
    a semicolon, a tab or a bar, as spreadsheets write them; with semicolons
    a decimal comma is understood.

    Parameters
    ----------
    path : str or path-like
    as_written : iterable of str
        Columns of a text file to keep as text, so that "007" stays what it
        is: those that were categories or text in training.

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
    try:
        table = _read_parquet(source) if kind in _PARQUET else _read_text(source, kind, packed, as_written)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise TableError(f"cannot read {str(path)!r}: {_first_line(error)}") from error
    if table.empty:
        raise TableError(f"{str(path)!r} has {table.shape[1]} column(s) and no rows; there must be some")
    return table


def write_table(table: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write a table as CSV, TSV or Parquet, by the name of the file; it is never half-written.

    The index is not written.
    """
    kind, packed = check_file_name(path)
    with replacing(path) as part:
        if kind in _PARQUET:
            table.to_parquet(part, index=False)
        else:
            with _opened(part, packed, "wb") as stream:
                table.to_csv(stream, sep=_TEXT[kind], index=False, lineterminator="\n", encoding="utf-8")
    return Path(path)


def check_file_name(path: str | os.PathLike[str]) -> tuple[str, str | None]:
    """The suffix that tells the format, and the compression if there is one."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packed = suffixes.pop() if suffixes and suffixes[-1] in _PACKED else None
    kind = suffixes[-1] if suffixes else ""
    if kind in _TEXT or (kind in _PARQUET and packed is None):
        return kind, packed
    advice = "save it as CSV first" if kind in (".xlsx", ".xls", ".ods") else "use one of those endings"
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
        raise TableError(f"{str(source)!r} is not a Parquet file: {_first_line(error)}") from error
    named = any(name is not None for name in table.index.names)
    return table.reset_index(drop=not named)


def _read_text(source: Path, kind: str, packed: str | None, as_written: Iterable[str]) -> pd.DataFrame:
    with _opened(source, packed, "rb") as stream:
        content = stream.read()
    encoding = _BOMS.get(content[:2], "utf-8-sig")
    start = content[:_SNIFFED].decode(encoding, errors="ignore")
    separator = _separator(start) if kind == ".csv" else _TEXT[kind]
    options: dict[str, Any] = {
        "sep": separator,
        "decimal": "," if separator == ";" and _DECIMAL_COMMA.search(start) else ".",
        "dtype": dict.fromkeys(as_written, pd.StringDtype(na_value=float("nan"))),
        "na_values": _MISSING,
        "index_col": False,
        "skipinitialspace": True,
        "low_memory": False,
        "encoding": encoding,
    }
    try:
        with warnings.catch_warnings():
            # Rows longer than the header are cut off with this warning only.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(io.BytesIO(content), **options)
    except UnicodeDecodeError as error:
        raise TableError(
            f"{str(source)!r} is not UTF-8 text; save it again as 'CSV UTF-8', or convert it: "
            "iconv -f latin1 -t utf-8"
        ) from error
    except pd.errors.EmptyDataError as error:
        raise TableError(f"{str(source)!r} is empty") from error
    except pd.errors.ParserWarning as error:
        raise TableError(
            f"{str(source)!r} has rows with more fields than its first line has names"
        ) from error
    except (pd.errors.ParserError, ValueError) as error:
        raise TableError(f"{str(source)!r} is not a table of text: {_first_line(error)}") from error


def _separator(start: str) -> str:
    """What the first line is divided by, quoted parts aside."""
    first = next((line for line in start.splitlines() if line.strip()), "")
    first = re.sub(r'"[^"]*"', "", first)
    return max(_SEPARATORS, key=first.count)


def _similar_file(source: Path) -> str:
    try:
        names = [entry.name for entry in source.parent.iterdir() if entry.is_file()]
    except OSError:
        return f"; the folder {str(source.parent)!r} cannot be read"
    found = difflib.get_close_matches(source.name, names, n=1)
    return f"; did you mean {str(source.with_name(found[0]))!r}?" if found else ""


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
