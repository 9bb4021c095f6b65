"""Formatting of shares, counts, numbers, names and lists for reports and for the terminal.

Numbers keep together with what they count by spaces that do not break, which
:func:`plain` turns into ordinary ones.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_THIN = "\u202f"  # does not break a number over two lines
_SPACE = "\u00a0"
_IN_NUMBER = re.compile(r"(?<=\d) (?=\d{3}\b)")
_BEFORE_NOUN = re.compile(r"(?<=\d) (?=%|[a-z])")
# Marks that reverse or hide the text after them, and control characters other than white space.
_INVISIBLE = dict.fromkeys(
    [*range(0x09), *range(0x0E, 0x20), 0x7F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF]
)


def percent(share: float, digits: int = 0) -> str:
    """A share as a percentage, with more digits near 0 and 1; only those are written 0 % and 100 %.

    Parameters
    ----------
    share : float
    digits : int
        After the decimal point, where the share is far from 0 and 1.

    Examples
    --------
    >>> [plain(percent(share)) for share in (0.904, 0.9962, 0.99997, 1.0, 0.0002)]
    ['90 %', '99.6 %', '99.99 %', '100 %', '0.02 %']
    >>> [plain(percent(share, 1)) for share in (0.91044, 0.9985, 1.0)]
    ['91.0 %', '99.85 %', '100 %']
    """
    value = round(100.0 * float(share), 9)
    if not math.isfinite(value):
        return "–"
    if value in (0.0, 100.0):
        return f"{value:.0f}{_SPACE}%"
    for shown in range(digits, 2):
        edge = 10.0 ** (digits - shown)
        if edge <= value <= 100.0 - edge:
            return f"{value:.{shown}f}{_SPACE}%"
    return f"{min(max(value, 0.01), 99.99):.2f}{_SPACE}%"


def rate(share: float) -> str:
    """A share that someone chose as a percentage: with all its digits.

    Examples
    --------
    >>> rate(0.015).replace("\u00a0", " ")
    '1.5 %'
    """
    return f"{100.0 * share:g}{_SPACE}%"


def between(low: float, high: float) -> str:
    """Two shares as the ends of a range, or the one share both round to.

    Examples
    --------
    >>> plain(between(0.8, 0.95)), plain(between(0.501, 0.502))
    ('between 80 % and 95 %', 'about 50 %')
    """
    ends = percent(low), percent(high)
    return f"about {ends[0]}" if ends[0] == ends[1] else f"between {ends[0]} and {ends[1]}"


def span(low: str, high: str) -> str:
    """Two numbers in words as a range, the unit said once.

    Examples
    --------
    >>> span(percent(0.8), percent(0.95)).replace("\u00a0", " ")
    '80–95 %'
    """
    return f"{low.removesuffix(f'{_SPACE}%')}–{high}"


def count(n: int) -> str:
    """A whole number, in groups of three digits.

    Examples
    --------
    >>> count(1234567).replace("\u202f", " "), count(1234)
    ('1 234 567', '1234')
    """
    return f"{n:,}".replace(",", _THIN) if abs(n) >= 10_000 else str(n)


def plural(n: int, one: str, many: str | None = None) -> str:
    r"""A count with its noun.

    Examples
    --------
    >>> plural(1, "row"), plural(3, "class", "classes")
    ('1\xa0row', '3\xa0classes')
    """
    noun = one if n == 1 else (many or f"{one}s")
    return f"{count(n)}{_SPACE}{noun}"


def number(value: float, digits: int = 3) -> str:
    """A measured number with few digits.

    Examples
    --------
    >>> number(0.24681), number(1234.5)
    ('0.247', '1234')
    """
    if not math.isfinite(value):
        return "–"
    if abs(value) >= 1000:
        return count(round(value))
    return f"{value:.{digits}f}" if abs(value) < 10 else f"{value:.{max(digits - 1, 0)}f}"


def shorten(text: Any, length: int = 40, end: str = "…") -> str:
    r"""One line of text, cut at a length, without characters that reverse or hide others.

    Examples
    --------
    >>> shorten("a  line\nand another", 10)
    'a line an…'
    """
    # Long cells are cut first: only what can be shown is worth tidying.
    line = " ".join(str(text)[: 8 * length].translate(_INVISIBLE).split())
    return line if len(line) <= length else line[: length - len(end)].rstrip() + end


def quoted(name: Any, length: int = 40) -> str:
    """A name from the user's table in quotation marks.

    Examples
    --------
    >>> quoted("Body Mass (g)")
    '“Body Mass (g)”'
    """
    return f"“{shorten(name, length)}”"


def plain(text: str) -> str:
    """The text with ordinary spaces, for terminals and JSON.

    Examples
    --------
    >>> plain(plural(12000, "row"))
    '12 000 rows'
    """
    return text.replace(_SPACE, " ").replace(_THIN, " ")


def tied(text: str) -> str:
    r"""Plain text with its numbers held together and kept with what they count.

    Examples
    --------
    >>> tied("90 % of 12 000 rows")
    '90\xa0% of 12\u202f000\xa0rows'
    """
    return _BEFORE_NOUN.sub(_SPACE, _IN_NUMBER.sub(_THIN, text))


def listing(names: Sequence[str], most: int = 4) -> str:
    """Names in a row, the first few of many.

    Examples
    --------
    >>> listing(["a", "b"]), listing(["a", "b", "c", "d", "e", "f"])
    ('a and b', 'a, b, c, d and 2 more')
    """
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))


_KINDS = {
    "number": ("number", "numbers"),
    "bool": ("yes/no", "yes/no"),
    "date": ("date", "dates"),
    "category": ("category", "categories"),
    "text": ("text", "texts"),
}


def kind_counts(kinds: Mapping[str, str]) -> list[str]:
    r"""How many columns there are of each kind.

    Parameters
    ----------
    kinds : mapping of str to str
        Kind of each column.

    Examples
    --------
    >>> kind_counts({"age": "number", "size": "number", "born": "date"})
    ['2\xa0numbers', '1\xa0date']
    """
    counts = Counter(kinds.values())
    return [plural(counts[kind], *words) for kind, words in _KINDS.items() if counts[kind]]
