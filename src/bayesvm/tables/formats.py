"""Files that hold tables: formats and compression by their names."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path
from typing import Any

from bayesvm.tables.errors import TableError

__all__ = ["PARQUET", "SEPARATORS", "check_file_name", "opened"]

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


def opened(path: Path, packed: str | None, mode: Any) -> Any:
    """The bytes of a file, whatever they are packed in."""
    if packed == ".zst":
        import pyarrow

        stream = pyarrow.OSFile(str(path), mode)
        reading = pyarrow.CompressedInputStream if mode == "rb" else pyarrow.CompressedOutputStream
        return reading(stream, "zstd")
    openers: dict[str | None, Any] = {None: open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return openers[packed](path, mode)
