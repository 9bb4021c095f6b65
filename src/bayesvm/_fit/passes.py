"""The first passes over the rows of a fit: which labels there are, then a sample and the moments of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from bayesvm._fit.engine import Chunk, Sums, changed, label_kind, sort_of
from bayesvm._fit.rows import CanonicalRows, Extent, Moments, row_keys

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]

# --- First pass: which labels there are, how many rows, and whether all of them can be used.


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
    """Summary of the rows.

    Attributes
    ----------
    n_rows, n_used : int
        All rows, and those of positive weight.
    labels : ndarray of shape (C,)
        Distinct labels in order.
    mass : ndarray of shape (C,)
        Their weights.
    extent : Extent
        Of the columns, over rows of positive weight.
    problem : Problem or None
        The first row that cannot be used.
    """

    n_rows: int
    n_used: int
    labels: npt.NDArray[Any]
    mass: FloatArray
    extent: Extent
    problem: Problem | None

    @classmethod
    def unusable(cls, n_rows: int, n_features: int, problem: Problem) -> SurveySums:
        """The sums of data with an unusable row; only the problem matters."""
        none = np.empty(0)
        return cls(n_rows, 0, none, none, Extent.of(np.empty((0, n_features))), problem)

    def plus(self, other: SurveySums) -> SurveySums:
        problem = self.problem
        if problem is None and other.problem is not None:
            problem = Problem(self.n_rows + other.problem.row, other.problem.words)
        sorts = [label_kind(part.labels) for part in (self, other) if part.labels.size]
        if problem is None and len(set(sorts)) == 2:
            problem = Problem(self.n_rows, f"y changes from {sorts[0]} to {sorts[1]}")
        n_rows, extent = self.n_rows + other.n_rows, self.extent.plus(other.extent)
        if problem is not None:
            return SurveySums.unusable(n_rows, len(extent.low), problem)
        labels, mass = self.labels, self.mass + 0.0
        if np.array_equal(labels, other.labels):
            mass += other.mass
        elif not labels.size or not other.labels.size:
            labels, mass = (self.labels, mass) if labels.size else (other.labels, other.mass)
        else:
            labels, index = np.unique(np.concatenate([labels, other.labels]), return_inverse=True)
            mass = masses(index, np.concatenate([mass, other.mass]), len(labels))
        return SurveySums(n_rows, self.n_used + other.n_used, labels, mass, extent, None)


@dataclass(frozen=True)
class Survey:
    """The pass: count rows and labels, and find rows that cannot be used.

    Attributes
    ----------
    n_features : int
    feature_names : tuple of str or None
        For messages.
    """

    n_features: int
    feature_names: tuple[str, ...] | None

    def __call__(self, chunk: Chunk) -> SurveySums:
        X, y, weight = chunk
        problem = self._problem(chunk)
        if problem is not None:
            return SurveySums.unusable(len(y), self.n_features, problem)
        labels, index = np.unique(y, return_inverse=True)
        mass, used = masses(index, weight, len(labels)), weight > 0
        extent = Extent.of(X if used.all() else X[used])
        return SurveySums(len(y), int(np.count_nonzero(used)), labels, mass, extent, None)

    def _problem(self, chunk: Chunk) -> Problem | None:
        X = chunk.X
        finite = np.isfinite(X)
        if not finite.all():
            row, column = (int(i) for i in np.argwhere(~finite)[0])
            what = "NaN" if np.isnan(X[row, column]) else "infinity"
            name = "" if self.feature_names is None else f" ({self.feature_names[column]!r})"
            return Problem(row, f"Input X contains {what}, column {column}{name}")
        return _label_problem(chunk.y)


def masses(index: IntArray, weight: FloatArray, n_labels: int) -> FloatArray:
    """Total weight of every label."""
    mass: FloatArray = np.bincount(index, weight, n_labels).astype(np.float64)
    return mass


def _label_problem(y: npt.NDArray[Any]) -> Problem | None:
    """The first label that is not a class label, or cannot be sorted with the others."""
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


# --- Second pass: a random sample of distinct rows that does not depend on chunks, and the moments of all.


class EncodedRows(NamedTuple):
    """Rows of positive weight.

    Attributes
    ----------
    X : ndarray of shape (n, D)
        Values as they were given.
    U : ndarray of shape (n, number of columns that vary)
        Their positions in the columns.
    y, weight, key : ndarray of shape (n,)
        Class indices, weights with those of the classes, content hashes.
    """

    X: FloatArray
    U: FloatArray
    y: IntArray
    weight: FloatArray
    key: IntArray


@dataclass(frozen=True)
class Encoding:
    """How a fit reads rows.

    Attributes
    ----------
    classes : ndarray of shape (C,)
        Labels in order.
    factor : ndarray of shape (C,)
        What the class multiplies into weights.
    extent : Extent
        Of the columns.
    seed : int
        Another seed gives other hashes.
    """

    classes: npt.NDArray[Any]
    factor: FloatArray
    extent: Extent
    seed: int

    def indices(self, y: npt.NDArray[Any]) -> IntArray:
        """Class indices of labels.

        Raises
        ------
        ValueError
            If a label is none of the classes: the first pass would have met it.
        """
        index = np.searchsorted(self.classes, y)
        unknown = self.classes[np.minimum(index, len(self.classes) - 1)] != y
        if np.any(unknown):
            raise ValueError(changed(f"the label {y[unknown].tolist()[0]!r} did not occur in the first"))
        return index.astype(np.int64)

    def used(self, chunk: Chunk) -> npt.NDArray[np.bool_]:
        """Whether each row has positive weight."""
        return np.asarray(chunk.weight * self.factor[self.indices(chunk.y)] > 0)

    def rows(self, chunk: Chunk, positive: bool = True) -> EncodedRows:
        """The rows of positive weight, or all of them."""
        X, y = chunk.X, self.indices(chunk.y)
        weight = chunk.weight * self.factor[y]
        used = weight > 0
        if positive and not used.all():
            X, y, weight = X[used], y[used], weight[used]
        U = self.extent.position(X)
        return EncodedRows(X, U, y, weight, row_keys(U, y, self.seed))


@dataclass(frozen=True)
class SampleSums:
    """The distinct rows of smallest hash so far, in the order of their hashes, and the moments of all.

    Rows are compared with all their equals in every chunk, so their weights and counts are complete.

    Attributes
    ----------
    size : int
    rows : CanonicalRows
    moments : Moments
    checksum : int
        The sum of the keys of all rows, those outside the sample too, modulo
        2^64: exact in any order. ``SweepSums`` has the same.
    """

    size: int
    rows: CanonicalRows
    moments: Moments
    checksum: int

    def plus(self, other: SampleSums) -> SampleSums:
        rows = self.rows.plus(other.rows).head(self.size)
        checksum = (self.checksum + other.checksum) % 2**64
        return SampleSums(self.size, rows, self.moments.plus(other.moments), checksum)


@dataclass(frozen=True)
class Sample:
    """The pass: ``size`` rows at most."""

    encoding: Encoding
    size: int

    def __call__(self, chunk: Chunk) -> SampleSums:
        X, U, y, weight, key = self.encoding.rows(chunk)
        moments, checksum = Moments.of(U, weight), int(np.add.reduce(key.view(np.uint64)))
        if len(key) > 2 * self.size:
            few = _smallest(key, self.size)
            X, y, weight, key = X[few], y[few], weight[few], key[few]
        rows = CanonicalRows.of(X, y, weight, np.ones_like(y), key).head(self.size)
        return SampleSums(self.size, rows, moments, checksum)


def _smallest(key: IntArray, size: int) -> IntArray:
    """Positions of the rows whose keys are among the ``size`` smallest distinct ones."""
    few = np.unique(np.partition(key, 2 * size)[: 2 * size])
    if few.size < size:  # rows repeat: there may be more distinct ones among the others
        few = np.unique(key)
    return np.flatnonzero(key <= few[min(size, few.size) - 1])


# --- A pass over prepared rows, a few at a time.


Item = TypeVar("Item", bound=NamedTuple)
Other = TypeVar("Other")
S = TypeVar("S", bound=Sums)


@dataclass(frozen=True)
class InParts(Generic[Item, Other, S]):
    """Prepare and sum rows part by part, so that prepared rows take bounded memory.

    Attributes
    ----------
    prepare : callable
        From rows (a named tuple of arrays of equal length) to what is added up.
    add_up : callable
    size : int
        Rows prepared at once.
    """

    prepare: Callable[[Item], Other]
    add_up: Callable[[Other], S]
    size: int

    def __call__(self, item: Item) -> S:
        n = len(item[0])
        total: S | None = None
        for start in range(0, max(n, 1), self.size):
            rows = slice(start, start + self.size)
            part = item if n <= self.size else type(item)(*(column[rows] for column in item))
            sums = self.add_up(self.prepare(part))
            total = sums if total is None else total.plus(sums)
        assert total is not None
        return total
