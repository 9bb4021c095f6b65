"""Labels that are in a file already, by row of a pool."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bayesvm.active.label_checks import with_checks
from bayesvm.active.label_columns import labels_of
from bayesvm.active.label_file import LABEL, is_label_file, read_entries, standing

if TYPE_CHECKING:
    import pandas

__all__ = ["read_labels"]


def read_labels(
    path: str | os.PathLike[str], target: str, pool: pandas.DataFrame, rows_unchanged: bool = False
) -> dict[int, str]:
    """Labels from a file: row from 0, and label.

    The file is one that ``bayesvm label`` wrote, a table with a column
    ``row`` (the first row of the pool is 1) and the target, or a table with
    the target and as many rows as the pool, in its order. A column ``row``
    that the pool has too is one of its own.

    Parameters
    ----------
    path : path-like
    target : str
        Name of the column of labels.
    pool : DataFrame
    rows_unchanged : bool
        Whether answers about rows whose values have changed count.

    Raises
    ------
    TableError
        If the file has no such column, or rows the pool does not have or has changed.
    """
    from bayesvm.tables.errors import TableError, closest
    from bayesvm.tables.reading import read_table

    n_rows = len(pool)
    table = read_table(path, target=target)
    if is_label_file(path, target):
        said = with_checks(standing(read_entries(path, target)), pool, target, Path(path), rows_unchanged)
        labels = {entry.row: entry.label for entry in said if entry.mark == LABEL}
    elif target not in table:
        raise TableError(f"{str(path)!r} has no column {target!r}{closest(target, table.columns)}")
    elif len(table) == n_rows and ("row" not in table or "row" in pool):
        labels = labels_of(table[target])
    elif "row" in table:
        labels = _by_number(table, target)
    else:
        raise TableError(
            f"{str(path)!r} has {len(table)} rows and the pool {n_rows}; give as many, or a column 'row' "
            "with the number of each in the pool"
        )
    outside = [row for row in labels if not 0 <= row < n_rows]
    if outside:
        raise TableError(f"{str(path)!r} labels row {outside[0] + 1}, but the pool has rows 1 to {n_rows}")
    return labels


def _by_number(table: pandas.DataFrame, target: str) -> dict[int, str]:
    from bayesvm.tables.errors import TableError
    from bayesvm.tables.kinds import as_text

    numbers = as_text(table["row"])
    bad = numbers[~numbers.fillna("").str.fullmatch(r"[0-9]+")]
    if len(bad):
        raise TableError(f"the column 'row' holds {bad.iloc[0]!r}; give whole numbers from 1")
    return {int(numbers.iloc[i]) - 1: label for i, label in labels_of(table[target]).items()}
