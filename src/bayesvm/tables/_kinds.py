"""Kinds of columns: how they are recognised, and how values of any type become one kind.

Every conversion looks at one value at a time, so that a prediction cannot
depend on the other rows of its table. A value that does not fit the kind of
its column becomes missing.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from bayesvm.tables._exceptions import TableError

KINDS = ("number", "bool", "date", "category", "text")
# Columns of words with at least this many different values are free text.
MANY_VALUES = 40
# Ways to write that there is no value, whatever the case.
MISSING_WORDS = ("", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none", "?", "-", "--", ".")
# A column of words holds numbers or dates in truth if this share of its values does.
_ENOUGH = 0.9
_TRUTH = {"true": 1.0, "t": 1.0, "yes": 1.0, "y": 1.0, "false": 0.0, "f": 0.0, "no": 0.0, "n": 0.0}
# Amounts as people write them: $1,234.50, 45%, 12 €.
_AMOUNT = re.compile(
    r"([-+]?)\s*[$€£¥]?\s*([-+]?)(\d+|\d{1,3}(?:,\d{3})+)(\.\d*)?\s*(?:[$€£¥]|(%))?", re.ASCII
)
_PLAIN = (str, bool, int, float, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta)
_STRINGS = pd.StringDtype(na_value=np.nan)
# What pandas calls the content of an object column, where that settles the kind.
_KIND_OF_OBJECTS = {
    "boolean": "bool",
    "integer": "number",
    "floating": "number",
    "decimal": "number",
    "mixed-integer-float": "number",
    "timedelta": "number",
    "time": "number",
    "date": "date",
    "datetime": "date",
    "datetime64": "date",
}


def recognise(column: pd.Series) -> tuple[str, str]:
    """The kind of a training column, by its type or by what most of its words say, and how it writes dates.

    Examples
    --------
    >>> [recognise(pd.Series(values))[0] for values in ([1, 2], ["$1,250", "?"], ["ant", "bee"])]
    ['number', 'number', 'category']
    >>> recognise(pd.Series(["25/12/2024"]))
    ('date', '%d/%m/%Y')
    """
    column = simple(column)
    kind = _kind_of_type(column)
    if kind is not None:
        return kind, ISO
    text = as_text(column).dropna()
    words = "text" if has_many_values(text) else "category"
    if isinstance(column.dtype, pd.CategoricalDtype):  # categories were chosen by the user
        return words, ISO
    if text.str.casefold().isin(["true", "false"]).all():
        return "bool", ISO
    if np.isfinite(_numbers(text)).sum() >= _ENOUGH * len(text):
        return "number", ISO
    style = date_style(text)
    if style is not None and as_dates(text, style).notna().sum() >= _ENOUGH * len(text):
        return "date", style
    return words, ISO


def has_many_values(text: pd.Series) -> bool:
    """Whether words are free text rather than categories."""
    return bool(text.nunique() >= MANY_VALUES)


def _kind_of_type(column: pd.Series) -> str | None:
    """The kind that the type of a column settles; None for words and mixtures."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return None
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return "date"
    if types.is_bool_dtype(dtype):
        return "bool"
    if types.is_numeric_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        return "number"
    return _KIND_OF_OBJECTS.get(types.infer_dtype(column, skipna=True))


def as_kind(column: pd.Series, kind: str, style: str | None = None) -> pd.Series:
    """The column with every value as its kind, or missing where a value does not fit.

    Parameters
    ----------
    column : Series
    kind : str
        One of ``KINDS``.
    style : str or None
        How dates are written (:func:`bayesvm.tables._kinds.date_style`); None:
        find out from these values.

    Returns
    -------
    Series
        float64 for numbers and truth values, datetime64 in UTC without zone
        for dates, strings for the rest.
    """
    column = simple(column)
    if kind == "number":
        values = _numbers(column)
        return pd.Series(np.where(np.isfinite(values), values, np.nan), column.index, name=column.name)
    if kind == "bool":
        return pd.Series(_truth(column), column.index, name=column.name)
    if kind == "date":
        if types.is_datetime64_any_dtype(column.dtype) or isinstance(column.dtype, pd.PeriodDtype):
            return as_dates(column)
        text = as_text(column)
        return as_dates(text, style or date_style(text.dropna()))
    return as_text(column)


def as_text(column: pd.Series, missing_words: Sequence[str] = MISSING_WORDS) -> pd.Series:
    """Values as stripped strings, whole numbers without a decimal point; missing words are missing.

    Examples
    --------
    >>> as_text(pd.Series([1.0, 2.5, " x ", "N/A", None], dtype=object)).tolist()
    ['1', '2.5', 'x', nan, nan]
    """
    column = simple(column)
    if isinstance(column.dtype, pd.CategoricalDtype):  # each category once, however many rows
        words = as_text(pd.Series(column.cat.categories), missing_words)
        return words.reindex(column.cat.codes).set_axis(column.index).rename(column.name)
    if types.is_string_dtype(column.dtype) and types.infer_dtype(column, skipna=True) == "string":
        text = column.astype(_STRINGS).str.strip()
    else:
        values, missing = column.astype(object).to_numpy(), column.isna().to_numpy()
        spelled = [np.nan if gone else _spell(value) for value, gone in zip(values, missing, strict=True)]
        text = pd.Series(spelled, column.index, dtype=_STRINGS, name=column.name)
    return text.mask(text.str.casefold().isin(missing_words).to_numpy(np.bool_))


def check_plain(column: pd.Series) -> None:
    """Refuse lists, records, bytes and complex numbers, which have no meaning as one feature."""
    column = simple(column)
    if types.is_complex_dtype(column.dtype):
        raise TableError(f"column {column.name!r} holds complex numbers; split it into real columns")
    if not types.is_object_dtype(column.dtype) or types.infer_dtype(column, skipna=True) in (
        "string",
        *_KIND_OF_OBJECTS,
    ):
        return
    for value in column[column.notna()]:
        if not isinstance(value, (*_PLAIN, np.generic, pd.Interval, pd.Period)):
            raise TableError(
                f"column {column.name!r} holds values of type {type(value).__name__}, such as "
                f"{str(value)[:40]!r}; split it into plain columns or ignore it"
            )


def simple(column: pd.Series) -> pd.Series:
    """The column in one of the types of numpy or of pandas itself, not of Arrow and not sparse."""
    if isinstance(column.dtype, pd.ArrowDtype):
        objects = column.to_numpy(dtype=object, na_value=None)
        return pd.Series(objects, column.index, dtype=object, name=column.name).infer_objects()
    if isinstance(column.dtype, pd.SparseDtype):
        return column.sparse.to_dense()
    return column


def _spell(value: Any) -> str:
    """One value as the text a person would have typed."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (float, np.floating, decimal.Decimal)) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.tzinfo is None and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value).strip()


def _numbers(column: pd.Series) -> npt.NDArray[np.float64]:
    """Numbers of any type, durations and times of day in seconds; NaN where there is none."""
    dtype = column.dtype
    if types.is_timedelta64_dtype(dtype):
        return column.dt.total_seconds().to_numpy(np.float64)
    if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype):
        return column.to_numpy(np.float64, na_value=np.nan)
    if types.is_datetime64_any_dtype(dtype):
        return np.full(len(column), np.nan)
    values, missing = column.astype(object).to_numpy(), column.isna().to_numpy()
    return np.array([np.nan if gone else _number(v) for v, gone in zip(values, missing, strict=True)], float)


def _number(value: Any) -> float:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    if isinstance(value, str):
        return _written_number(value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _written_number(text: str) -> float:
    """A number from text, also with a currency sign, commas between thousands, or in percent."""
    try:
        # Python reads "1_000" as a number; data do not mean it so.
        return np.nan if "_" in text else float(text)
    except ValueError:
        pass
    amount = _AMOUNT.fullmatch(text.strip())
    if amount is None or (amount[1] and amount[2]):
        return np.nan
    value = float(amount[1] + amount[2] + amount[3].replace(",", "") + (amount[4] or ""))
    return value / 100.0 if amount[5] else value


def _truth(column: pd.Series) -> npt.NDArray[np.float64]:
    """One, zero, or NaN: from truth values, the numbers 0 and 1, and words."""
    words = as_text(column).str.casefold().map(_TRUTH).to_numpy(np.float64)
    numbers = _numbers(column)
    return np.where(np.isnan(words) & np.isin(numbers, (0.0, 1.0)), numbers, words)


# --- Dates, which people write in many ways.


ISO = "ISO8601"
_DATES = (
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%d.%m.%y",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%b %d %Y",
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_SAMPLE = 50
# A style is worth trying on all values if it fits this share of a sample.
_PROMISING = 0.7
_LOOKS_LIKE_A_DATE = r"(?:\d{1,4}[-/. ]|[A-Za-z]{3,9} \d).{2,40}$"


def date_style(text: pd.Series) -> str | None:
    """How the dates of a column of words are written; None if hardly any is a date.

    The style that fits most values wins; of two that fit equally well the one
    with the month first, as most programs have it.

    Examples
    --------
    >>> date_style(pd.Series(["03/04/2024", "25/12/2024"])), date_style(pd.Series(["7 May 2024"]))
    ('%d/%m/%Y', '%d %b %Y')
    >>> date_style(pd.Series(["ant", "bee"])) is None
    True
    """
    known = text.dropna().drop_duplicates()
    sample = known.iloc[:: max(1, len(known) // _SAMPLE)]
    looks = sample.str.match(_LOOKS_LIKE_A_DATE)
    if not len(sample) or looks.mean() < _PROMISING:
        return None
    first = sample[looks].iloc[0]
    times = _TIMES if ":" in first else ("",)
    # The third character of a style separates the first two parts of the date.
    styles = [ISO, *(date + time for time in times for date in _DATES if date[2] in first)]
    promising = [style for style in styles if _parse(sample, style).notna().mean() >= _PROMISING]
    # max keeps the first of equals.
    return max(promising, key=lambda style: int(_parse(known, style).notna().sum()), default=None)


def is_ambiguous(text: pd.Series, style: str) -> bool:
    """Whether day and month could change places in every value."""
    if "%m" not in style or "%d" not in style or style.startswith("%Y"):
        return False
    swapped = style.replace("%m", "%_").replace("%d", "%m").replace("%_", "%d")
    known = text.dropna().drop_duplicates()
    other = _parse(known, swapped)
    return bool(other.notna().all()) and not other.equals(_parse(known, style))


def as_dates(column: pd.Series, style: str | None = None) -> pd.Series:
    """Dates in UTC without zone, missing where a value is none.

    Words are read in the given style or else as ISO 8601.
    """
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if types.is_datetime64_any_dtype(column.dtype):
        dates = pd.to_datetime(column, utc=True)
    else:
        dates = _parse(column, ISO)
        if style not in (None, ISO):
            dates = _parse(column, style).fillna(dates)
    return dates.dt.tz_localize(None).astype("datetime64[us]")


def _parse(text: pd.Series, style: str | None) -> pd.Series:
    return pd.to_datetime(text, format=style, errors="coerce", utc=True).astype("datetime64[us, UTC]")
