"""Pitfalls of the target: few rows, uneven classes, classes of a handful of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.report.pitfalls.pitfall import Pitfall
from bayesvm.report.pitfalls.predictors import IntArray
from bayesvm.report.wording import count, listing, percent, plural, quoted

__all__ = ["class_pitfalls"]

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
