"""What could mislead in a table: imbalance, duplicates, leaking columns and the like."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bayesvm.report.as_seen import as_seen, columns_of
from bayesvm.report.pitfalls.classes import class_pitfalls
from bayesvm.report.pitfalls.columns import column_pitfalls
from bayesvm.report.pitfalls.duplicates import duplicate_pitfalls
from bayesvm.report.pitfalls.leakage import leak_pitfalls, row_order_pitfalls
from bayesvm.report.pitfalls.pitfall import SEVERITIES, Pitfall
from bayesvm.report.wording import plain

if TYPE_CHECKING:
    import pandas

__all__ = ["Pitfall", "find_pitfalls"]


def find_pitfalls(table: pandas.DataFrame, target: str) -> list[Pitfall]:
    """What could mislead in a table, worst first.

    Parameters
    ----------
    table : DataFrame
        With the target among its columns; rows whose target is missing are
        left aside.
    target : str
        Name of the column to be predicted.

    Returns
    -------
    list of Pitfall

    Raises
    ------
    TableError
        If the table has no such column, or one that cannot be a target.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"ill": ["yes", "no"] * 60, "code": [1, 2] * 60, "age": range(120)})
    >>> [(pitfall.kind, pitfall.columns) for pitfall in find_pitfalls(table, "ill")][:2]
    [('copy', ('code',)), ('identifier', ('age',))]
    """
    from bayesvm.tables.columns import named_columns
    from bayesvm.tables.errors import TableError, closest
    from bayesvm.tables.kinds import check_plain
    from bayesvm.tables.target import class_labels

    table = named_columns(table)
    if target not in table:
        raise TableError(f"the table has no column {target!r}{closest(target, table.columns)}")
    labels, known = class_labels(table[target])
    classes, y = np.unique(labels, return_inverse=True)
    positions = np.flatnonzero(known)
    inputs = table.drop(columns=target).iloc[positions]
    for name in inputs.columns:
        check_plain(inputs[name])
    columns = columns_of(inputs)
    seen = as_seen(columns, inputs)
    found = [
        *leak_pitfalls(seen, y),
        *class_pitfalls(classes, np.bincount(y)),
        *duplicate_pitfalls(inputs, y, positions),
        *column_pitfalls(columns, seen),
        *row_order_pitfalls(y),
    ]
    return sorted(map(_plain, found), key=lambda pitfall: SEVERITIES.index(pitfall.severity))


def _plain(pitfall: Pitfall) -> Pitfall:
    """The pitfall with ordinary spaces: its words also go into terminals and JSON."""
    return replace(
        pitfall,
        title=plain(pitfall.title),
        explanation=plain(pitfall.explanation),
        advice=plain(pitfall.advice),
    )
