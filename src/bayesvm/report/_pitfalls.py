"""Pitfalls of a table, what could mislead its user: imbalance, duplicates, identifiers, leaks."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayesvm._formatting import count, listing, percent, plain, plural, quoted
from bayesvm.report._leakage import leak_pitfalls, row_order_pitfalls
from bayesvm.report._pitfall import SEVERITIES, IntArray, Pitfall, listed

if TYPE_CHECKING:
    import pandas

    from bayesvm.tables._columns import TableColumns


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
    from bayesvm.tables._columns import class_labels, named_columns
    from bayesvm.tables._exceptions import TableError, closest
    from bayesvm.tables._kinds import check_plain

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


# --- The table as the model sees it: values of their columns' kinds, gaps as missing.


def columns_of(inputs: pandas.DataFrame) -> TableColumns:
    """What a fit would learn about these columns; there may be none that it would use."""
    from bayesvm.tables._columns import TableColumns
    from bayesvm.tables._exceptions import TableError, TableWarning

    columns = TableColumns()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # said when the table is fitted
        try:
            columns.fit(inputs)
        except TableError:
            # Raised once every column was looked at: a table without a usable one has pitfalls too.
            if columns.names_:
                raise
    return columns


def as_seen(columns: TableColumns, table: pandas.DataFrame) -> pandas.DataFrame:
    """The columns in use, with gaps where the model sees them."""
    from bayesvm.tables._exceptions import TableWarning

    if not columns.names_:
        return table.iloc[:, :0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        return columns.transform(table)


# --- Pitfalls of the target: few rows, uneven classes, classes of a handful of rows.


FEWEST_ROWS = 30
FEW_ROWS = 100
SMALL_CLASS = 5
LARGE_SHARE = 0.8
LARGE_RATIO = 10


def class_pitfalls(classes: npt.NDArray[Any], counts: IntArray) -> Iterator[Pitfall]:
    """Pitfalls seen from the classes and their numbers of rows alone."""
    order = np.argsort(-counts, kind="stable")
    classes, counts = classes[order], counts[order]
    yield from _few_rows(int(counts.sum()))
    yield from _small_classes(classes, counts)
    yield from _imbalance(classes, counts)


def _few_rows(n_rows: int) -> Iterator[Pitfall]:
    if n_rows < FEW_ROWS:
        yield Pitfall(
            "few rows",
            "alarm" if n_rows < FEWEST_ROWS else "caution",
            f"Only {plural(n_rows, 'row')}",
            f"With fewer than {FEW_ROWS} rows every figure in this report is rough: "
            "the ranges given beside them are wide for that reason.",
            "Read the ranges rather than the figures, and add rows if you can.",
        )


def _small_classes(classes: npt.NDArray[Any], counts: IntArray) -> Iterator[Pitfall]:
    small = counts < SMALL_CLASS
    if small.any():
        pairs = zip(classes[small], counts[small], strict=True)
        names = listing([f"{quoted(name)} ({n})" for name, n in pairs])
        yield Pitfall(
            "small class",
            "caution",
            f"{plural(int(small.sum()), 'class', 'classes')} with fewer than {SMALL_CLASS} rows",
            f"So few examples say almost nothing about a class: {names}.",
            "Add rows of these classes, join them with similar ones, or remove them.",
        )


def _imbalance(classes: npt.NDArray[Any], counts: IntArray) -> Iterator[Pitfall]:
    share = float(counts[0] / counts.sum())
    largest, smallest = quoted(classes[0]), quoted(classes[-1])
    if share >= LARGE_SHARE:
        yield Pitfall(
            "imbalance",
            "caution",
            f"{percent(share)} of the rows are {largest}",
            f"Answering {largest} every time is right for {percent(share)} of the rows without looking at "
            "them, so a high accuracy alone means little here.",
            "Judge the model by what it does on the rare classes (see what it mixes up) and by its log-loss.",
        )
    elif counts[0] >= LARGE_RATIO * counts[-1]:
        yield Pitfall(
            "imbalance",
            "note",
            "The classes are of very different sizes",
            f"{largest} has {plural(int(counts[0]), 'row')}, {smallest} only {count(int(counts[-1]))}. "
            "The figures over all rows say little about the small classes.",
            "Look at each class's own share of right answers.",
        )


# --- Pitfalls of single columns, the target left aside: empty, constant, identifiers.


MOSTLY_MISSING = 0.5
NEARLY_ALL_MISSING = 0.9
# Identifiers are short and of few words; names and remarks are longer.
LONGEST_IDENTIFIER = 40
REPEATED_FROM, REPEATED_TO = 0.2, 0.95
ROWS_JUDGED = 5000
WORDS = ("category", "text")
# Words that are numbers to a person, if not to the model: "12 kg", "1.234,50 €", "09:30".
MEASURED = re.compile(
    r"[-+]?[$€£¥]?\s?(?:\d{1,3}(?:[,.' ]\d{3})+|\d+)(?:[.,]\d+)?(?:\s?[%‰$€£¥°]|\s[A-Za-zµ°]{1,4})?"
    r"|\d{1,2}:\d\d(?::\d\d)?"
)


def column_pitfalls(columns: TableColumns, seen: pandas.DataFrame) -> Iterator[Pitfall]:
    """Pitfalls seen from each column alone.

    Parameters
    ----------
    columns : TableColumns
        Fitted to the table without its target.
    seen : DataFrame
        The columns in use, as the model sees them.
    """
    kinds = columns.kinds_
    yield from _constant(list(columns.ignored_))
    missing = seen.isna().mean()
    yield from _mostly_missing(missing[missing > MOSTLY_MISSING].sort_values(ascending=False), kinds)
    yield from _identifiers([name for name in columns.names_ if _is_identifier(seen[name], kinds[name])])
    yield from _groups([name for name in columns.names_ if _repeats_identifiers(seen[name], kinds[name])])


def _constant(names: list[str]) -> Iterator[Pitfall]:
    if names:
        yield Pitfall(
            "constant",
            "note",
            f"{plural(len(names), 'column')} with the same value in every row",
            f"{listed(names)} cannot tell rows apart and took no part in the predictions.",
            "Nothing needs to be done, unless you expected them to differ.",
            tuple(names),
        )


def _mostly_missing(shares: pandas.Series, kinds: dict[str, str]) -> Iterator[Pitfall]:
    if len(shares):
        worst = listing([f"{quoted(name)} ({percent(share)} empty)" for name, share in shares.items()])
        yield Pitfall(
            "missing",
            "caution" if shares.iloc[0] >= NEARLY_ALL_MISSING else "note",
            f"{plural(len(shares), 'column is', 'columns are')} mostly empty",
            f"More than half of the values are missing in {worst}. {_what_gaps_become(shares, kinds)}",
            "Fill the gaps from your sources, or remove the column.",
            tuple(str(name) for name in shares.index),
        )


def _what_gaps_become(shares: pandas.Series, kinds: dict[str, str]) -> str:
    spelled = [kinds[str(name)] in WORDS for name in shares.index]
    if all(spelled):
        return "Missing counts as a value of its own, and there is little beside it."
    filled = "Gaps are filled in with typical values, so such a column says little."
    return f"{filled} (In categories and text, missing is a value of its own.)" if any(spelled) else filled


def _identifiers(names: list[str]) -> Iterator[Pitfall]:
    if names:
        yield Pitfall(
            "identifier",
            "caution",
            f"{listed(names)} {'looks like an identifier' if len(names) == 1 else 'look like identifiers'}",
            "Every row has a value of its own. Such a number or code says who a row is, not what it is like: "
            "nothing learned from it carries over to new rows, and if it was given out in an order that has "
            "to do with the answer it makes the figures look too good.",
            "Remove it and fit again, unless it truly is a measurement.",
            tuple(names),
        )


def _groups(names: list[str]) -> Iterator[Pitfall]:
    if names:
        yield Pitfall(
            "groups",
            "note",
            f"Codes in {listed(names)} come back in several rows",
            "If rows with the same code belong to the same person, animal or machine, then the model has met "
            "most of the held-out ones before, and it will do worse on ones that are new to it.",
            "If so, judge it by groups: fit without some of the codes, then evaluate on the rows with them.",
            tuple(names),
        )


def _is_identifier(column: pandas.Series, kind: str) -> bool:
    """Whether each row has its own value: a running number or a short code."""
    if len(column) < 10 or column.nunique() < len(column):
        return False
    if kind == "number":
        span = column.max() - column.min() + 1
        return bool((column % 1 == 0).all() and span <= 2 * len(column))
    return kind in WORDS and _codes(column, digits=False)


def _repeats_identifiers(column: pandas.Series, kind: str) -> bool:
    n, distinct = int(column.notna().sum()), column.nunique()
    if kind not in WORDS or n < 20 or not REPEATED_FROM * n <= distinct <= REPEATED_TO * n:
        return False
    return _codes(column, digits=True)


def _codes(column: pandas.Series, *, digits: bool) -> bool:
    """Whether nearly all values are short, measure nothing and, if asked, hold a digit and no blank."""
    values = column.dropna().head(ROWS_JUDGED).tolist()
    if digits:
        fits = [any(c.isdigit() for c in value) and " " not in value for value in values]
    else:
        fits = [len(value.split()) <= 3 for value in values]
    short = [len(value) <= LONGEST_IDENTIFIER and not MEASURED.fullmatch(value) for value in values]
    return bool(np.mean(np.logical_and(fits, short)) >= 0.95)


# --- Rows that occur more than once, and those that do so with different answers.


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
    from bayesvm.tables._fitting import equal_rows

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
