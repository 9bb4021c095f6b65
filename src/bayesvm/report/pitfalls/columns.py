"""Pitfalls of single columns, the target left aside: empty, constant, identifiers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from bayesvm.report.pitfalls.pitfall import Pitfall
from bayesvm.report.wording import listing, percent, plural, quoted

if TYPE_CHECKING:
    import pandas

__all__ = ["column_pitfalls"]

MOSTLY_MISSING = 0.5
NEARLY_ALL_MISSING = 0.9
# Identifiers are short and of few words; names and remarks are longer.
LONGEST_IDENTIFIER = 40
REPEATED_FROM, REPEATED_TO = 0.2, 0.95
ROWS_JUDGED = 5000


def column_pitfalls(inputs: pandas.DataFrame) -> Iterator[Pitfall]:
    """Pitfalls seen from each column alone."""
    missing = inputs.isna().mean()
    distinct = {name: inputs[name].nunique() for name in inputs.columns}
    constant = [
        name for name in inputs.columns if distinct[name] == 0 or (distinct[name] == 1 and not missing[name])
    ]
    yield from _constant(constant)
    emptyish = missing.drop(constant)
    yield from _mostly_missing(emptyish[emptyish >= MOSTLY_MISSING].sort_values(ascending=False))
    rest = [name for name in inputs.columns if name not in set(constant)]
    yield from _identifiers([name for name in rest if _is_identifier(inputs[name], distinct[name])])
    yield from _groups([name for name in rest if _repeats_identifiers(inputs[name], distinct[name])])


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


def _mostly_missing(shares: pandas.Series) -> Iterator[Pitfall]:
    if len(shares):
        worst = listing([f"{quoted(name)} ({percent(share)} empty)" for name, share in shares.items()])
        yield Pitfall(
            "missing",
            "caution" if shares.iloc[0] >= NEARLY_ALL_MISSING else "note",
            f"{plural(len(shares), 'column is', 'columns are')} mostly empty",
            f"More than half of the values are missing in {worst}. Gaps are filled in with typical values, "
            "so such a column says little.",
            "Fill the gaps from your sources, or remove the column.",
            tuple(str(name) for name in shares.index),
        )


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


def _is_identifier(column: pandas.Series, distinct: int) -> bool:
    """Whether each row has its own value: a running number or a short code."""
    import pandas as pd

    if distinct < len(column) or len(column) < 10:
        return False
    if pd.api.types.is_integer_dtype(column):
        span = int(column.max()) - int(column.min()) + 1
        return span <= 2 * len(column)
    return _is_text(column) and _codes(column, digits=False)


def _repeats_identifiers(column: pandas.Series, distinct: int) -> bool:
    n = int(column.notna().sum())
    if not _is_text(column) or n < 20 or not REPEATED_FROM * n <= distinct <= REPEATED_TO * n:
        return False
    return _codes(column, digits=True)


def _is_text(column: pandas.Series) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_string_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype))


def _codes(column: pandas.Series, *, digits: bool) -> bool:
    """Whether nearly all values are short and, if asked, hold a digit and no blank."""
    values = [str(value) for value in column.dropna().head(ROWS_JUDGED)]
    if digits:
        fits = [len(v) <= LONGEST_IDENTIFIER and any(c.isdigit() for c in v) and " " not in v for v in values]
    else:
        fits = [len(v) <= LONGEST_IDENTIFIER and len(v.split()) <= 3 for v in values]
    return bool(np.mean(fits) >= 0.95)


def _names(names: list[str]) -> str:
    return listing([quoted(name) for name in names])
