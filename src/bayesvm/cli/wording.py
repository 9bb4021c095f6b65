"""Figures and lists in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["bar", "class_counts", "count_of", "cut", "interval", "kinds_in_words", "percent", "shortened"]

MOST_SHOWN = 8
_KINDS = {
    "number": ("number", "numbers"),
    "bool": ("yes or no", "yes or no"),
    "date": ("date", "dates"),
    "category": ("category", "categories"),
    "text": ("text", "texts"),
}
_BAR = 20
# Intervals from fewer rows than this would say nothing, or too much.
_LEAST_ROWS = 10


def percent(share: float) -> str:
    """A share in percent, with a digit more near all and nothing.

    Examples
    --------
    >>> percent(0.91044), percent(0.9985), percent(1.0)
    ('91.0 %', '99.85 %', '100 %')
    """
    value = 100.0 * share
    if value in (0.0, 100.0):
        return f"{value:.0f} %"
    return f"{value:.{1 if 1.0 <= value <= 99.0 else 2}f} %"


def interval(value: float, low: float, high: float, *, rows: int, share: bool = False) -> str:
    """A figure with its 95 % interval, or a dash where there are too few rows to know one.

    Examples
    --------
    >>> interval(0.9104, 0.8181, 0.9583, rows=67, share=True)
    '91.0 % (81.8 to 95.8)'
    >>> interval(0.2160, 0.0906, 0.3795, rows=67)
    '0.216 (0.091 to 0.380)'
    >>> interval(0.2160, 0.0906, 0.3795, rows=5)
    '0.216 (-)'
    """
    if rows < _LEAST_ROWS:
        return f"{percent(value) if share else f'{value:.3f}'} (-)"
    if share:
        return f"{percent(value)} ({percent(low)[:-2]} to {percent(high)[:-2]})"
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def count_of(n: int, noun: str) -> str:
    """A number and its noun.

    Examples
    --------
    >>> count_of(1, "row"), count_of(2, "row")
    ('1 row', '2 rows')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def kinds_in_words(kinds: Mapping[str, str]) -> str:
    """How many columns there are of each kind.

    Examples
    --------
    >>> kinds_in_words({"age": "number", "size": "number", "born": "date"})
    '2 numbers, 1 date'
    """
    counts = Counter(kinds.values())
    return ", ".join(f"{counts[kind]} {_KINDS[kind][counts[kind] > 1]}" for kind in _KINDS if counts[kind])


def class_counts(classes: Sequence[Any], counts: Sequence[int]) -> str:
    """Classes with their rows, the most frequent first.

    Examples
    --------
    >>> class_counts(["ant", "bee"], [3, 5])
    'bee 5, ant 3'
    """
    order = sorted(range(len(counts)), key=lambda i: -counts[i])
    return shortened(f"{classes[i]} {counts[i]}" for i in order)


def shortened(parts: Iterable[str]) -> str:
    """A list of a few things, or the first few of many."""
    parts = list(parts)
    more = [f"and {len(parts) - MOST_SHOWN} more"] if len(parts) > MOST_SHOWN else []
    return ", ".join([*(cut(part, 60) for part in parts[:MOST_SHOWN]), *more])


def cut(text: str, width: int) -> str:
    """The beginning of a text that is too long."""
    return text if len(text) <= width else text[: width - 3] + "..."


def bar(share: float, largest: float) -> str:
    """A bar as long as a share of the largest one.

    Examples
    --------
    >>> bar(0.1, 0.4)
    '#####'
    """
    return "#" * round(_BAR * share / largest) if largest > 0 else ""
