"""Pitfalls: facts about a table that could mislead readers of the figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bayesvm._formatting import listing, quoted

IntArray = npt.NDArray[np.integer[Any]]
Severity = Literal["alarm", "caution", "note"]
SEVERITIES: tuple[Severity, ...] = ("alarm", "caution", "note")


@dataclass(frozen=True)
class Pitfall:
    """One thing to know about a table before trusting its figures.

    Attributes
    ----------
    kind : str
        What was looked for, such as ``"leak"`` or ``"duplicates"``.
    severity : {"alarm", "caution", "note"}
        Alarm: the figures probably do not mean what they seem to. Caution:
        they may not. Note: good to know.
    title : str
        One line in plain words.
    explanation : str
        What was found, with numbers.
    advice : str
        What to do about it.
    columns : tuple of str
        The columns concerned, worst first.
    rows : tuple of int
        Positions of rows concerned, at most ten.
    """

    kind: str
    severity: Severity
    title: str
    explanation: str
    advice: str
    columns: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()


def listed(names: list[str]) -> str:
    """Names of columns, quoted, the first few of many."""
    return listing([quoted(name) for name in names])
