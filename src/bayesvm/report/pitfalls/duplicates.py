"""Rows that occur more than once, and those that do so with different answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayesvm.report.pitfalls.pitfall import Pitfall
from bayesvm.report.pitfalls.predictors import IntArray
from bayesvm.report.wording import percent, plural

if TYPE_CHECKING:
    import pandas

__all__ = ["duplicate_pitfalls"]

MANY_REPEATS = 0.05
MANY_CONFLICTS = 0.01
ROWS_NAMED = 10


def duplicate_pitfalls(inputs: pandas.DataFrame, y: IntArray, positions: IntArray) -> Iterator[Pitfall]:
    """Pitfalls of repeated rows, the target left aside.

    Parameters
    ----------
    inputs : DataFrame
        The rows with a known target, without it.
    y : ndarray of shape (n_rows,)
        Classes as whole numbers from zero.
    positions : ndarray of shape (n_rows,)
        Where the rows stand in the table.
    """
    from bayesvm.tables.splitting import equal_rows

    group = equal_rows(inputs)
    size = np.bincount(group)
    repeats = int((size - 1).sum())
    if not repeats:
        return
    # A table whose columns take few values cannot help repeating itself.
    log_combinations = sum(np.log(inputs[name].nunique() + 1.0) for name in inputs.columns)
    share = repeats / len(y)
    yield Pitfall(
        "duplicates",
        "caution" if share >= MANY_REPEATS and log_combinations > np.log(len(y)) else "note",
        f"{plural(repeats, 'row repeats', 'rows repeat')} an earlier one",
        f"Leaving the answer aside, {percent(share)} of the rows are exact copies of others. If they are "
        "mistakes, the same case counts several times, and the model looks surer and better than it is. "
        "(Held-out rows were kept apart from their copies.)",
        "If copies are mistakes, remove them. If they are separate cases that happen to agree, keep them.",
        rows=_first(positions[size[group] > 1]),
    )
    yield from _conflicts(group, size, y, positions)


def _conflicts(group: IntArray, size: IntArray, y: IntArray, positions: IntArray) -> Iterator[Pitfall]:
    n_classes = int(y.max()) + 1
    pair, pair_size = np.unique(group * n_classes + y, return_counts=True)
    most = np.zeros_like(size)
    np.maximum.at(most, pair // n_classes, pair_size)
    lost = int((size - most).sum()) / len(y)
    if lost:
        contested = positions[(most < size)[group]]
        yield Pitfall(
            "conflicts",
            "caution" if lost >= MANY_CONFLICTS else "note",
            f"{plural(contested.size, 'row')} with the same values but different answers",
            f"These rows agree in every column and differ in the answer, so no model can get more than "
            f"{percent(1.0 - lost)} of this table right.",
            "Check whether some of the answers are mistakes, or whether a column that tells these rows apart "
            "is missing from the table.",
            rows=_first(contested),
        )


def _first(rows: npt.NDArray[Any]) -> tuple[int, ...]:
    return tuple(int(row) for row in rows[:ROWS_NAMED])
