"""Bars of a page: named shares, as many as can be taken in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Bar", "bars_of"]


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes
    ----------
    name : str
    width : float
        Between 0 and 1, of the space there is.
    value : str
        What is written beside it.
    rest : bool
        Whether it stands for all that is not shown.
    """

    name: str
    width: float
    value: str
    rest: bool = False


def bars_of(names: Sequence[str], sizes: Sequence[float], values: Sequence[str]) -> list[Bar]:
    """Bars whose widths are in proportion, the longest as wide as there is space."""
    longest = max(sizes, default=0.0) or 1.0
    return [
        Bar(name, float(size / longest), value)
        for name, size, value in zip(names, sizes, values, strict=True)
    ]
