"""First pass: which labels there are, how many rows, and whether all of them can be used.

What is wrong with a chunk as a whole, ``streaming.checks`` has refused before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from bayesvm._fit.chunks import Chunk, Sums, changed, joined, label_kind, sort_of
from bayesvm._fit.rows import CanonicalRows, Scaler, hash_values, scaler_of_moments

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


# --- From labels as they were given to class indices, and to weights with those of the classes.

IntArray = npt.NDArray[np.int64]
# Leaves room for so many classes below the seed.
_CLASS_BITS = 24


class Encoded(NamedTuple):
    """Rows of positive weight: values as they were given, class indices, weights, content hashes."""

    X: FloatArray
    y: IntArray
    weight: FloatArray
    code: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Labels:
    """How a fit reads labels.

    Attributes
    ----------
    classes : ndarray of shape (C,)
        Labels in order.
    factor : ndarray of shape (C,)
        What the class multiplies into weights.
    seed : int
        Another seed gives other hashes.
    """

    classes: npt.NDArray[Any]
    factor: npt.NDArray[np.floating]
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
            raise ValueError(changed(f"the label {y[unknown].tolist()[0]!r} was not there in the first"))
        return index.astype(np.int64)

    def weighted(self, chunk: Chunk) -> tuple[FloatArray, IntArray, FloatArray]:
        """Values, class indices and weights of the rows of positive weight."""
        y = self.indices(chunk.y)
        weight = chunk.weight * self.factor[y]
        used = weight > 0
        if used.all():
            return chunk.X, y, weight
        return chunk.X[used], y[used], weight[used]

    def encoded(self, chunk: Chunk) -> Encoded:
        """The same with content hashes: of the bits of a row, its label and the seed, and of nothing else.

        The seed stands above the class indices in the number that is hashed with the values.
        """
        X, y, weight = self.weighted(chunk)
        X = np.ascontiguousarray(X)
        return Encoded(X, y, weight, self.codes(X, y))

    def codes(self, X: FloatArray, y: IntArray) -> npt.NDArray[np.uint64]:
        """Content hashes of rows with these class indices."""
        return hash_values(X, y + (self.seed << _CLASS_BITS))


# --- Weighted mean and spread of every column, in one reading.


# Digits that a mean keeps, as a share of the spread and of the peak, and a
# spread as a share of itself: those beyond depend on the order of summation.
_BITS = 40
_PEAK_BITS = 48
_TINY = np.finfo(np.float64).smallest_subnormal


@dataclass(frozen=True)
class MomentSums:
    """Moments of columns, in units that are powers of two near their peaks, so that squares cannot overflow.

    Attributes
    ----------
    weight : float
        Of all rows.
    unit, mean, square : ndarray of shape (D,)
        Units; means, and sums of weighted squares about them, in these.
    """

    weight: float
    unit: FloatArray
    mean: FloatArray
    square: FloatArray

    def plus(self, other: MomentSums) -> MomentSums:
        """Chan, Golub and LeVeque's merge."""
        if not other.weight or not self.weight:
            return self if self.weight else other
        unit = np.maximum(self.unit, other.unit)
        a, b = self.unit / unit, other.unit / unit
        apart = other.mean * b - self.mean * a
        weight = self.weight + other.weight
        share = other.weight / weight
        return MomentSums(
            weight,
            unit,
            self.mean * a + apart * share,
            self.square * a**2 + other.square * b**2 + apart**2 * (self.weight * share),
        )

    def scaler(self) -> Scaler:
        """Standardisation by these moments, without the digits that depend on the order of the rows."""
        spread = _rounded(np.sqrt(self.square / self.weight), _BITS)
        step = np.maximum(np.ldexp(spread, -_BITS), np.ldexp(1.0, -_PEAK_BITS))
        step = np.ldexp(1.0, np.frexp(step)[1])
        return scaler_of_moments(np.round(self.mean / step) * step, spread, self.unit)


def _rounded(x: FloatArray, bits: int) -> FloatArray:
    """Numbers with so many binary digits."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


@dataclass(frozen=True)
class Moments:
    """The pass; its labels say what rows weigh."""

    labels: Labels

    def __call__(self, chunk: Chunk) -> MomentSums:
        X, _, weight = self.labels.weighted(chunk)
        total = float(weight.sum())
        if not total:
            zero = np.zeros(X.shape[1])
            return MomentSums(0.0, zero + _TINY, zero, zero)
        peak = np.maximum(X.max(0), -X.min(0))
        # Half the next power of two, which is finite for every peak.
        unit = np.where(peak > 0, np.ldexp(0.5, np.frexp(peak)[1]), _TINY)
        X = X / unit
        mean = (weight @ X) / total
        X -= mean
        return MomentSums(total, unit, mean, weight @ np.square(X, out=X))


# --- A random sample of distinct rows that does not depend on how they are chunked.


@dataclass(frozen=True)
class SampleSums:
    """The distinct rows of smallest hash so far, in the order of their hashes.

    Rows are compared with all their equals in every chunk, so their weights are complete.

    Attributes
    ----------
    size : int
    rows : Encoded
    checksum : int
        The sum of the keys of all rows, those outside the sample too, modulo
        2^64: exact in any order. ``SweepSums`` has the same.
    """

    size: int
    rows: Encoded
    checksum: int

    def plus(self, other: SampleSums) -> SampleSums:
        both = Encoded(*(np.concatenate(pair) for pair in zip(self.rows, other.rows, strict=True)))
        checksum = (self.checksum + other.checksum) % 2**64
        return SampleSums(self.size, _smallest(both, self.size), checksum)

    def canonical(self) -> CanonicalRows:
        """The sample as the rows of a fit."""
        X, y, weight, code = self.rows
        none = np.empty(0, dtype=np.int64)
        return CanonicalRows(X, y, weight, (code >> np.uint64(1)).astype(np.int64), none)


@dataclass(frozen=True)
class Sample:
    """The pass: ``size`` rows at most."""

    labels: Labels
    size: int

    def __call__(self, chunk: Chunk) -> SampleSums:
        rows = self.labels.encoded(chunk)
        checksum = int(np.add.reduce(rows.code >> np.uint64(1)))
        return SampleSums(self.size, _smallest(rows, self.size), checksum)


def _smallest(rows: Encoded, size: int) -> Encoded:
    """Distinct rows of smallest hash, weights of equal ones added up."""
    order = _first(rows.code, size)
    X, y, weight, code = rows.X[order], rows.y[order], rows.weight[order], rows.code[order]
    # Equal hashes are equal rows up to a chance of 1e-7 in a million rows; look anyway.
    same = code[1:] == code[:-1]
    if same.any():
        where = np.flatnonzero(same)
        same[where] = (y[where] == y[where + 1]) & (X[where] == X[where + 1]).all(1)
        first = np.flatnonzero(np.concatenate([[True], ~same]))
        X, y, weight, code = X[first], y[first], np.add.reduceat(weight, first), code[first]
    return Encoded(X[:size], y[:size], weight[:size], code[:size])


def _first(code: npt.NDArray[np.uint64], size: int) -> npt.NDArray[np.int64]:
    """Positions of the rows whose hashes are among the ``size`` smallest distinct ones, in their order."""
    if len(code) <= 2 * size:
        return np.argsort(code, kind="stable")
    few = np.unique(np.partition(code, 2 * size)[: 2 * size])
    if few.size < size:  # rows repeat: there may be more distinct ones among the others
        few = np.unique(code)
    last = few[min(size, few.size) - 1]
    inside = np.flatnonzero(code <= last)
    return inside[np.argsort(code[inside], kind="stable")]


# --- All rows in one place, where they are few.


@dataclass(frozen=True)
class Gathered:
    """Chunks in their order."""

    chunks: list[Chunk]

    def plus(self, other: Gathered) -> Gathered:
        return Gathered(self.chunks + other.chunks)

    def rows(self) -> Chunk:
        """All rows as one chunk."""
        return joined(self.chunks)


def gather(chunk: Chunk) -> Gathered:
    """The pass that brings all rows here."""
    return Gathered([chunk])


# --- Passes made of passes: one after the other, or two in one reading.


Item = TypeVar("Item", bound=NamedTuple)
Other = TypeVar("Other")
S = TypeVar("S", bound=Sums)
A = TypeVar("A", bound=Sums)
B = TypeVar("B", bound=Sums)
In = TypeVar("In")


@dataclass(frozen=True)
class BothSums(Generic[A, B]):
    """The sums of two passes."""

    first: A
    second: B

    def plus(self, other: BothSums[A, B]) -> BothSums[A, B]:
        return BothSums(self.first.plus(other.first), self.second.plus(other.second))


@dataclass(frozen=True)
class Both(Generic[In, A, B]):
    """Two passes in one reading of the rows."""

    first: Callable[[In], A]
    second: Callable[[In], B]

    def __call__(self, item: In) -> BothSums[A, B]:
        return BothSums(self.first(item), self.second(item))


@dataclass(frozen=True)
class InParts(Generic[Item, Other, S]):
    """Prepare some rows, add them up, go on to the next: what is prepared takes bounded memory.

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
