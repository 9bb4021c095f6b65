"""Whether the rows of a pool are still the rows that were labelled."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bayesvm.active.label_file import Entry

if TYPE_CHECKING:
    import pandas

__all__ = ["row_checks", "with_checks"]


def row_checks(table: pandas.DataFrame, target: str, rows: Sequence[int]) -> list[str]:
    """A short digest of the values of each row, the target apart.

    Numbers are taken as people write them, so that a column read as whole
    numbers one day and with gaps another gives the same digest.
    """
    from bayesvm.tables.kinds import as_text

    some = table.iloc[list(rows)]
    texts = [as_text(some[name], ()).fillna("").tolist() for name in table.columns if name != target]
    return [
        hashlib.sha256("\x1f".join(values).encode("utf-8", "replace")).hexdigest()[:12]
        for values in zip(*texts, strict=True)
    ]


def with_checks(
    entries: Sequence[Entry], table: pandas.DataFrame, target: str, path: Path, unchanged: bool
) -> list[Entry]:
    """The entries, with digests of the rows as they are now.

    Parameters
    ----------
    entries : sequence of Entry
    table : DataFrame
    target : str
    path : Path
        File of the entries, for messages.
    unchanged : bool
        Whether rows count as the same though their values differ.

    Raises
    ------
    TableError
        If a row is not there, or is another one.
    """
    from bayesvm.tables.errors import TableError

    beyond = [entry.row for entry in entries if entry.row >= len(table)]
    if beyond:
        raise TableError(
            f"{str(path)!r} has an answer about row {beyond[0] + 1}, but the pool has {len(table)} rows; "
            "give the pool it belongs to, or another file of labels"
        )
    checks = row_checks(table, target, [entry.row for entry in entries])
    stale = [
        entry.row for entry, check in zip(entries, checks, strict=True) if entry.check not in ("", check)
    ]
    if not stale:
        return list(entries)
    if not unchanged:
        raise TableError(
            f"row {stale[0] + 1} of the pool is not what it was when it was labelled ({str(path)!r}); "
            "give the pool as it was, or rows_unchanged (--rows-unchanged) if only its columns have changed"
        )
    return [replace(entry, check=check) for entry, check in zip(entries, checks, strict=True)]
