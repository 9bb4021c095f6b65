"""First pass: which labels there are, how many rows, and whether all of them can be used.

What is wrong with a chunk as a whole, ``streaming.checks`` has refused before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm.streaming.chunks import Chunk
from bayesvm.streaming.label_kind import label_kind, sort_of

__all__ = ["Problem", "Survey", "SurveySums"]

FloatArray = npt.NDArray[np.float64]
# Kinds of numpy types that can be labels.
_LABELS = "biufOUSM"


class Problem(NamedTuple):
    """Why a row cannot be used; rows count from 0 over all chunks."""

    row: int
    words: str

    def __str__(self) -> str:
        return f"{self.words} in row {self.row} (of all chunks, counted from 0)"


@dataclass(frozen=True)
class SurveySums:
    """What the rows hold.

    Attributes
    ----------
    n_rows, n_used : int
        All rows, and those of positive weight.
    labels : ndarray of shape (C,)
        Distinct labels in order.
    mass : ndarray of shape (C,)
        Their weights.
    problem : Problem or None
        The first row that cannot be used.
    """

    n_rows: int
    n_used: int
    labels: npt.NDArray[Any]
    mass: FloatArray
    problem: Problem | None

    def plus(self, other: SurveySums) -> SurveySums:
        problem = self.problem
        if problem is None and other.problem is not None:
            problem = Problem(self.n_rows + other.problem.row, other.problem.words)
        sorts = [label_kind(part.labels) for part in (self, other) if part.labels.size]
        if problem is None and len(set(sorts)) == 2:
            problem = Problem(self.n_rows, f"y changes from {sorts[0]} to {sorts[1]}")
        if problem is not None:  # nothing else will be asked for
            return SurveySums(self.n_rows + other.n_rows, 0, self.labels[:0], self.mass[:0], problem)
        labels, mass = self.labels, self.mass + 0.0
        if np.array_equal(labels, other.labels):
            mass += other.mass
        elif not labels.size or not other.labels.size:
            labels, mass = (self.labels, mass) if labels.size else (other.labels, other.mass)
        else:
            labels, index = np.unique(np.concatenate([labels, other.labels]), return_inverse=True)
            mass = _masses(index, np.concatenate([mass, other.mass]), len(labels))
        return SurveySums(self.n_rows + other.n_rows, self.n_used + other.n_used, labels, mass, None)


@dataclass(frozen=True)
class Survey:
    """Count rows and labels, and look for what cannot be used.

    Attributes
    ----------
    n_features : int
    feature_names : tuple of str or None
        For messages.
    """

    n_features: int
    feature_names: tuple[str, ...] | None

    def __call__(self, chunk: Chunk) -> SurveySums:
        _, y, weight = chunk
        problem = self._problem(chunk)
        if problem is not None:
            return SurveySums(len(y), 0, y[:0], weight[:0], problem)
        labels, index = np.unique(y, return_inverse=True)
        mass = _masses(index, weight, len(labels))
        return SurveySums(len(y), int(np.count_nonzero(weight)), labels, mass, None)

    def _problem(self, chunk: Chunk) -> Problem | None:
        X = chunk.X
        finite = np.isfinite(X)
        if not finite.all():
            row, column = (int(i) for i in np.argwhere(~finite)[0])
            what = "NaN" if np.isnan(X[row, column]) else "infinity"
            name = "" if self.feature_names is None else f" ({self.feature_names[column]!r})"
            return Problem(row, f"Input X contains {what}, column {column}{name}")
        return _label_problem(chunk.y)


def _label_problem(y: npt.NDArray[Any]) -> Problem | None:
    """Labels that are no labels, or cannot be put in order."""
    if y.dtype.kind == "f":
        bad = y != np.floor(y)
        if bad.any():
            words = f"Unknown label type: y must hold class labels, and {y[bad][0]:g} is a measurement"
            return Problem(int(np.argmax(bad)), words)
    elif y.dtype.kind == "O":
        other = [sort_of(label) != sort_of(y[0]) for label in y]
        if any(other):
            row = other.index(True)
            return Problem(row, f"y changes from {sort_of(y[0])} to {sort_of(y[row])}")
    elif y.dtype.kind not in _LABELS:
        return Problem(0, f"Unknown label type: y holds {y.dtype}")
    return None


def _masses(index: npt.NDArray[np.int64], weight: FloatArray, n_labels: int) -> FloatArray:
    """Weight of every label; numpy's types promise less than it does with weights."""
    mass: FloatArray = np.bincount(index, weight, n_labels)  # type: ignore[assignment]
    return mass
