"""The 68 sets of the paper and their shapes.

All sets of PMLB's summary of February 2018 with at least three classes and
128 rows, without mnist: the paper does not list them, this rule gives its
number. Names are those of today's ``pmlb`` package.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple


class SetInfo(NamedTuple):
    """Name and shape of a set."""

    name: str
    rows: int
    features: int
    classes: int


@cache
def _read() -> tuple[SetInfo, ...]:
    text = (files("bayesvm_studies.datasets") / "data" / "paper_sets.tsv").read_text(encoding="utf-8")
    lines = (line.split("\t") for line in text.splitlines()[1:])
    return tuple(SetInfo(name, int(rows), int(d), int(classes)) for name, rows, d, classes in lines)


def paper_sets() -> list[SetInfo]:
    """The sets of the paper, the smallest first.

    Examples
    --------
    >>> len(paper_sets()), paper_sets()[-1]
    (68, SetInfo(name='poker', rows=1025009, features=10, classes=10))
    """
    return sorted(_read(), key=lambda s: (s.rows, s.name))


def find_set(name: str) -> SetInfo | None:
    """The set of that name, or None if the paper has none.

    Examples
    --------
    >>> find_set("iris")
    SetInfo(name='iris', rows=150, features=4, classes=3)
    """
    return next((s for s in _read() if s.name == name), None)
