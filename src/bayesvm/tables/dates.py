"""Dates written in many ways."""

from __future__ import annotations

import pandas as pd
from pandas.api import types

__all__ = ["ISO", "as_dates", "date_style", "is_ambiguous"]

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
