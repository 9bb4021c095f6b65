"""Pitfalls of single columns, the target left aside: empty, constant, identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from bayesvm.report.pitfalls.pitfall import Pitfall
from bayesvm.report.wording import listing, percent, plural, quoted

if TYPE_CHECKING:
    import pandas

    from bayesvm.tables import TableColumns

__all__ = ["column_pitfalls"]

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
            f"{_names(names)} cannot tell rows apart and took no part in the predictions.",
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
            f"{_names(names)} {'looks like an identifier' if len(names) == 1 else 'look like identifiers'}",
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
            f"Codes in {_names(names)} come back in several rows",
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


def _names(names: list[str]) -> str:
    return listing([quoted(name) for name in names])
