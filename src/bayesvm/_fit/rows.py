"""Rows in canonical form: distinct, weighted, standardised, ordered by a hash of their content.

Every random choice of a fit is keyed on this order, so the result cannot
depend on the order of the rows, on how they were cut into chunks, on whether
a row is given twice or with weight two, or on the units of a column: values are
hashed by their position between the least and the greatest of their column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from bayesvm._compiled.curves import DECIMALS, Curves

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]
_Hash = npt.NDArray[np.uint64]

# A column whose range or spread is this small against its size is rounding noise.
_RELATIVE_SPREAD = 1e-13


@dataclass(frozen=True)
class Extent:
    """Least and greatest value of every column; merging chunks in any order is exact.

    Attributes
    ----------
    low, high : ndarray of shape (D,)
        Infinite the wrong way round where there is no row.
    """

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, X: FloatArray) -> Extent:
        """The extent of some rows."""
        return cls(X.min(0, initial=np.inf), X.max(0, initial=-np.inf))

    def plus(self, other: Extent) -> Extent:
        """The extent of the rows of both."""
        return Extent(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def peak(self) -> FloatArray:
        """Largest magnitude in every column."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def varies(self) -> npt.NDArray[np.bool_]:
        """Whether a column has more than one value, rounding noise apart."""
        low, high, half = self._halves()
        return high - low > _RELATIVE_SPREAD * half * self.peak

    def position(self, X: FloatArray) -> FloatArray:
        """Columns that vary, from 0 at their least to 1 at their greatest value: the same in any units."""
        varies = self.varies
        low, high, half = self._halves()
        if not varies.all():
            X, low, high = X[:, varies], low[varies], high[varies]
        return ((X if half == 1.0 else X * half) - low) / (high - low)

    def range_times(self, share: FloatArray) -> FloatArray:
        """Shares, at most ½, of the ranges."""
        low, high, half = self._halves()
        return (high - low) * (share / half)

    def _halves(self) -> tuple[FloatArray, FloatArray, float]:
        """Bounds times a factor that keeps their differences finite."""
        with np.errstate(over="ignore"):
            half = 1.0 if np.isfinite(self.high - self.low).all() else 0.5
        return self.low * half, self.high * half, half


# --- The order of the rows: a hash of their content.


# Positions are hashed to this many decimals: rounding in other units changes about one in a
# million, and equal hashes of different rows, which share their draws, are as rare.
_KEY_DECIMALS = 9
# Leaves room for so many classes below the seed.
_CLASS_BITS = 24


def mix(x: _Hash) -> _Hash:
    """The finaliser of splitmix64: a bijection that scatters nearby integers."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def row_keys(U: FloatArray, y: IntArray, seed: int = 0) -> IntArray:
    """Hashes from 0 to 2^63 of rows in unit-free columns and of their labels, independent of other rows.

    Parameters
    ----------
    U : ndarray of shape (N, D)
        Positions of values in their columns (``Extent.position``), or standardised values.
    y : ndarray of shape (N,)
        Class indices.
    seed : int
        Another seed gives other hashes.
    """
    bits = (np.round(U, _KEY_DECIMALS) + 0.0).view(np.uint64)  # adding zero turns -0.0 into 0.0
    with np.errstate(over="ignore"):
        code = mix((y + (seed << _CLASS_BITS)).astype(np.uint64) + np.uint64(1))
        for d in range(U.shape[1]):
            code = mix(code * np.uint64(0x9E3779B97F4A7C15) + bits[:, d])
    return (code >> np.uint64(1)).astype(np.int64)


_COLUMNS = ("X", "y", "weight", "count", "key")


@dataclass(frozen=True)
class CanonicalRows:
    """Distinct (x, y) rows with their total weights, and how much of one leave-one-out leaves out (eq. 5.2).

    Attributes
    ----------
    X : ndarray of shape (M, D)
    y : ndarray of shape (M,)
        Class indices.
    weight : ndarray of shape (M,)
        Sum of the weights of the equal rows; all positive.
    count : ndarray of shape (M,)
        How many equal rows were given.
    key : ndarray of shape (M,)
        Content hash, increasing; what random draws are keyed on.
    index : ndarray of shape (N,)
        Position here of each given row; -1 for rows of weight zero, and for
        those that are not among these. Empty where rows came in several chunks.
    copied : bool
        Whether equal rows are one row given several times, which new rows will not be.
    group : ndarray of shape (M,) or None
        Numbers of the groups whose rows are left out together; rows of two groups are not merged.
    """

    X: FloatArray
    y: IntArray
    weight: FloatArray
    count: IntArray
    key: IntArray
    index: IntArray
    copied: bool = False
    group: IntArray | None = None

    @classmethod
    def of(
        cls,
        X: FloatArray,
        y: IntArray,
        weight: FloatArray,
        count: IntArray,
        key: IntArray,
        group: IntArray | None = None,
    ) -> CanonicalRows:
        """Merge equal rows and sort by key; all weights are positive."""
        if group is not None:  # which acts as a label that is equal in equal rows only
            n_classes = int(y.max(initial=0)) + 1
            rows = cls.of(X, group * n_classes + y, weight, count, key)
            return replace(rows, y=rows.y % n_classes, group=rows.y // n_classes)
        order = _by_content(X, y, key)
        X, y, weight, count, key = X[order], y[order], weight[order], count[order], key[order]
        same = key[1:] == key[:-1]
        where = np.flatnonzero(same)
        same[where] = _equal(X, y, where)
        first = np.flatnonzero(np.concatenate([[True], ~same])) if len(key) else np.empty(0, dtype=np.int64)
        index = np.empty(len(key), dtype=np.int64)
        index[order] = np.cumsum(np.concatenate([[False], ~same])) if len(key) else 0
        if first.size < key.size:
            X, y, key = X[first], y[first], key[first]
            weight, count = np.add.reduceat(weight, first), np.add.reduceat(count, first)
        return cls(X, y, weight, count, key, index)

    @property
    def unit(self) -> FloatArray:
        """Weight that is left out of each row: that of one of the equal rows, or all if they are copies."""
        return self.weight if self.copied or self.group is not None else self.weight / self.count

    def head(self, n: int) -> CanonicalRows:
        """The first n rows."""
        if n >= len(self.y):
            return self
        index = np.where(self.index < n, self.index, -1)
        first = {name: getattr(self, name)[:n] for name in _COLUMNS}
        group = None if self.group is None else self.group[:n]
        return replace(self, index=index, group=group, **first)

    def plus(self, other: CanonicalRows) -> CanonicalRows:
        """The rows of both, without the positions in which they were given."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in _COLUMNS)
        both = CanonicalRows.of(*(np.concatenate(pair) for pair in pairs))
        return replace(both, index=both.index[:0])


def _equal(X: FloatArray, y: IntArray, where: IntArray) -> npt.NDArray[np.bool_]:
    """Whether rows equal those behind them."""
    return (y[where] == y[where + 1]) & (X[where] == X[where + 1]).all(1)


def _by_content(X: FloatArray, y: IntArray, key: IntArray) -> IntArray:
    """The order of the rows by key; different rows of one key are in the order of their values."""
    order = np.argsort(key, kind="stable")
    where = np.flatnonzero(key[order[1:]] == key[order[:-1]])
    if where.size:
        apart = ~_equal(X[order], y[order], where)
        if apart.any():
            tied = np.flatnonzero(np.isin(key[order], key[order[where[apart]]]))
            rows = order[tied]
            order[tied] = rows[np.lexsort((y[rows], *X[rows].T, key[rows]))]
    return order


# --- Whether equal rows are copies: then no other row is nearly equal to them (section 5).


# Fewer copies than these, in number or as a share of the rows, change leave-one-out little.
_FEWEST_COPIES = 8
_LEAST_SHARE = 0.05
# Rows that repeat more often than this on average have columns of few values.
_MOST_TIMES = 10
# Rows are near if they agree in columns that hold this share of the information of all columns.
_NEAR = 0.5
# If independent columns would give this share of the equal pairs by chance, they are no copies.
_BY_CHANCE = 0.05
# Repeated rows that are examined, at most, and comparisons of numbers.
_JUDGES = 256
_COMPARISONS = 200_000_000


class RepeatedRowsWarning(UserWarning):
    """Rows repeat more often than chance explains."""


def beyond_chance(rows: CanonicalRows) -> bool:
    """Whether rows repeat more often than chance explains.

    Where two rows agree by chance, because columns take few values, other rows agree
    in part, and those are more. Where rows were copied or drawn with replacement there are
    copies and nothing in between. So a repeated row is a copy if fewer other rows
    are near to it than equal to it, and rows are copied if most of those that repeat are copies.

    Parameters
    ----------
    rows : CanonicalRows
        All distinct rows of a fit.
    """
    n_distinct, n_rows = len(rows.count), int(rows.count.sum())
    fewest = max(_FEWEST_COPIES, _LEAST_SHARE * n_rows)
    if n_rows - n_distinct < fewest or n_rows > _MOST_TIMES * n_distinct:
        return False
    information = _information(rows.X)
    used = np.flatnonzero(information > 0)
    if len(used) < 2:  # in a single column nothing is half equal
        return False
    pairs = n_rows * (n_rows - 1) / 2
    if pairs * math.exp(-information.sum()) > _BY_CHANCE * float((rows.count * (rows.count - 1)).sum()) / 2:
        return False
    repeated = np.flatnonzero(rows.count > 1)
    repeated = repeated[: min(_JUDGES, max(1, _COMPARISONS // (n_distinct * len(used))))]
    near = np.array([_near(rows, int(n), used, information) for n in repeated])
    return bool(np.mean(near < rows.count[repeated] - 1) > 0.5)


def _information(X: FloatArray) -> FloatArray:
    """Information in the agreement of two rows in a column: minus the logarithm of how often rows agree."""
    pairs = len(X) * (len(X) - 1) / 2
    sizes = (np.unique(column, return_counts=True)[1].astype(np.float64) for column in X.T)
    agreeing = np.array([(n * (n - 1)).sum() / 2 for n in sizes])
    information: FloatArray = np.log((1.0 + pairs) / (1.0 + agreeing))
    return information


def _near(rows: CanonicalRows, n: int, used: IntArray, information: FloatArray) -> int:
    """How many other rows are near to a row; one of another label may be equal in all columns."""
    agreed = np.zeros(len(rows.count))
    for d in used:
        agreed += information[d] * (rows.X[:, d] == rows.X[n, d])
    agreed[n] = 0.0
    return int(rows.count[agreed >= _NEAR * information[used].sum()].sum())


# --- Standardisation, weighted and independent of units.


# Standardised values are clipped here, so that no square of one overflows.
FARTHEST = 1e12
# Digits that a mean keeps, as a share of the spread and of the range, and a
# spread as a share of itself: those beyond depend on the order of summation.
_BITS = 40
_RANGE_BITS = 48
# Knots of a column's curve, evenly spaced in its normal scores, and the decimals that these keep.
_KNOTS = 65
_SCORE_DECIMALS = 9


@dataclass(frozen=True)
class Scaler:
    """Weighted mean and standard deviation per column; constant columns are dropped unless all are.

    Attributes
    ----------
    mean, scale : ndarray of shape (D,)
        In the units of the data; the scale of a dropped column is 1.
    kept : ndarray of shape (D,)
        Whether a column varies.
    curves : Curves or None
        What becomes of standardised columns.
    """

    mean: FloatArray
    scale: FloatArray
    kept: npt.NDArray[np.bool_]
    curves: Curves | None = field(default=None, kw_only=True)

    @classmethod
    def identity(cls, n_features: int) -> Scaler:
        """Columns as they are."""
        return cls(np.zeros(n_features), np.ones(n_features), np.ones(n_features, dtype=np.bool_))

    def transform(self, X: FloatArray) -> FloatArray:
        """Standardised columns that vary, shape (N, number kept)."""
        with np.errstate(over="ignore"):
            if not self.kept.all():
                Z = (X[:, self.kept] - self.mean[self.kept]) / self.scale[self.kept]
            else:
                Z = (X - self.mean) / self.scale
        np.clip(Z, -FARTHEST, FARTHEST, out=Z)
        np.round(Z, DECIMALS, out=Z)
        if self.curves is None:
            return Z
        return np.round(self.curves.of(self.kept)(Z), DECIMALS)

    def towards_normal_scores(self, rows: CanonicalRows) -> Scaler:
        """The same, with columns halfway to the normal scores of some rows (eq. 1.7)."""
        Z = replace(self, kept=np.ones_like(self.kept)).transform(rows.X)
        return replace(self, curves=_halfway(Z, rows.weight))

    def of_features(self, values: FloatArray) -> FloatArray:
        """One of the values of the standardised columns for each column that is kept."""
        return values

    def with_all_columns(self) -> Self:
        """The same with constant columns kept: later rows may vary in them."""
        return replace(self, kept=np.ones_like(self.kept))

    def inverse_transform(self, Z: FloatArray) -> FloatArray:
        """Rows in the units of the data; dropped columns get their mean."""
        X = np.tile(self.mean, (Z.shape[0], 1))
        Z = Z if self.curves is None else self.curves.of(self.kept).inverse(Z)
        X[:, self.kept] += Z * self.scale[self.kept]
        return X


def _halfway(Z: FloatArray, weight: FloatArray) -> Curves:
    """Curves that average standardised columns with their normal scores, and standardise what comes out."""
    D = Z.shape[1]
    x, y, slope = np.empty((D, _KNOTS)), np.empty((D, _KNOTS)), np.ones(D)
    weight = weight / weight.sum()
    for d, order in enumerate(Z.argsort(0, kind="stable").T):
        z, w = Z[order, d], weight[order]
        starts = np.flatnonzero(np.concatenate([[True], z[1:] != z[:-1]]))
        z, w = z[starts], np.add.reduceat(w, starts)
        score = np.round(_normal_scores(w), _SCORE_DECIMALS)
        half = 0.5 * (z + score)
        mean = float(np.round(w @ half, _SCORE_DECIMALS))
        (deviation,) = _rounded(np.sqrt([w @ np.square(half - mean)]))
        if deviation > 0.0:
            half, slope[d] = (half - mean) / deviation, 0.5 / deviation
        if len(z) > _KNOTS:
            even = np.linspace(score[0], score[-1], _KNOTS)
            some = np.unique(np.concatenate([[0], np.searchsorted(score, even[1:-1]), [len(z) - 1]]))
            z, half = z[some], half[some]
        beyond = np.arange(1, 1 + _KNOTS - len(z))  # where there are fewer, on the line behind the last
        x[d] = np.concatenate([z, z[-1] + beyond])
        y[d] = np.concatenate([half, half[-1] + slope[d] * beyond])
    return Curves(x, y, slope)


def _normal_scores(weight: FloatArray) -> FloatArray:
    """Normal quantiles of ordered values, each tail from its own end, as one may weigh next to nothing."""
    below, above = weight.cumsum() - 0.5 * weight, weight[::-1].cumsum()[::-1] - 0.5 * weight
    tail = np.clip(np.minimum(below, above), np.finfo(np.float64).tiny, 0.5)
    size = -torch.special.ndtri(torch.from_numpy(tail)).numpy()
    return np.asarray(np.sign(below - above) * size)


@dataclass(frozen=True)
class Moments:
    """Weighted moments of the positions of rows in their columns.

    Attributes
    ----------
    weight : float
        Of all rows.
    mean, square : ndarray of shape (number of columns that vary,)
        Means, and sums of weighted squares about them.
    """

    weight: float
    mean: FloatArray
    square: FloatArray

    @classmethod
    def of(cls, U: FloatArray, weight: FloatArray) -> Moments:
        """The moments of some rows."""
        total = float(weight.sum())
        if not total:
            return cls(0.0, np.zeros(U.shape[1]), np.zeros(U.shape[1]))
        mean = (weight @ U) / total
        return cls(total, mean, weight @ np.square(U - mean))

    def plus(self, other: Moments) -> Moments:
        """Chan, Golub and LeVeque's merge."""
        if not other.weight or not self.weight:
            return self if self.weight else other
        weight = self.weight + other.weight
        share = other.weight / weight
        apart = other.mean - self.mean
        square = self.square + other.square + apart**2 * (self.weight * share)
        return Moments(weight, self.mean + apart * share, square)

    def scaler(self, extent: Extent) -> Scaler:
        """Standardisation by these moments, without the digits that depend on the order of the rows."""
        varies = extent.varies
        share, spread = np.zeros(varies.size), np.zeros(varies.size)
        deviation = _rounded(np.sqrt(self.square / self.weight))
        step = np.maximum(np.ldexp(deviation, -_BITS), np.ldexp(1.0, -_RANGE_BITS))
        step = np.ldexp(1.0, np.frexp(step)[1])
        share[varies], spread[varies] = np.round(self.mean / step) * step, deviation
        scale = extent.range_times(spread)
        kept = (scale > _RELATIVE_SPREAD * extent.peak) & (scale > 0)
        mean = extent.low * (1.0 - share) + extent.high * share
        mean = np.where(varies, mean, extent.low)
        return Scaler(mean, np.where(kept, scale, 1.0), kept if kept.any() else np.ones_like(kept))


def _rounded(x: FloatArray) -> FloatArray:
    """Numbers with so many binary digits."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(np.ldexp(mantissa, _BITS)), exponent - _BITS)
