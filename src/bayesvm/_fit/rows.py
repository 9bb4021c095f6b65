"""Rows in canonical form: distinct, weighted, ordered by a hash of their content.

Every random choice of a fit is keyed on this order, so the result cannot
depend on the order of the rows, on whether a row is given twice or with
weight two, or on the scale of a feature: the hash sees ranks, not values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]
_Hash = npt.NDArray[np.uint64]


def mix(x: _Hash) -> _Hash:
    """The finaliser of splitmix64: a bijection that scatters nearby integers."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class CanonicalRows:
    """Distinct (x, y) rows with their total weights.

    Attributes
    ----------
    X : ndarray of shape (M, D)
    y : ndarray of shape (M,)
        Class indices.
    weight : ndarray of shape (M,)
        Sum of the weights of the equal rows; all positive.
    key : ndarray of shape (M,)
        Content hash, increasing; what random draws are keyed on.
    index : ndarray of shape (N,)
        Position here of each given row; -1 for rows of weight zero.
    """

    X: FloatArray
    y: IntArray
    weight: FloatArray
    key: IntArray
    index: IntArray


def _hash_rows(X: FloatArray, y: IntArray, seed: int) -> _Hash:
    """Hash of the ranks of a row's values within their columns, and of its label."""
    with np.errstate(over="ignore"):
        code = mix(y.astype(np.uint64) + mix(np.array([seed], dtype=np.uint64)))
        for d in range(X.shape[1]):
            values, rank = np.unique(X[:, d], return_inverse=True)
            if values.size > 1:  # constant columns change nothing, not even the order
                code = mix(code * np.uint64(0x9E3779B97F4A7C15) + rank.astype(np.uint64))
    return code


def hash_values(Z: FloatArray, y: IntArray) -> _Hash:
    """Hash of standardised values and labels: the same for a row whatever rows are around it."""
    bits = (Z + 0.0).view(np.uint64)  # adding zero turns -0.0 into 0.0
    with np.errstate(over="ignore"):
        code = mix(y.astype(np.uint64) + np.uint64(1))
        for d in range(Z.shape[1]):
            code = mix(code * np.uint64(0x9E3779B97F4A7C15) + bits[:, d])
    return code


def canonical_rows(X: FloatArray, y: IntArray, weight: FloatArray, seed: int) -> CanonicalRows:
    """Merge equal rows, drop rows of weight zero and sort by content hash.

    Parameters
    ----------
    X : ndarray of shape (N, D)
    y : ndarray of shape (N,)
        Class indices.
    weight : ndarray of shape (N,)
        Non-negative weights.
    seed : int
        Another seed gives another order.
    """
    kept = np.flatnonzero(weight > 0)
    whole = kept.size == X.shape[0]
    Xk, yk, wk = (X, y, weight) if whole else (X[kept], y[kept], weight[kept])
    key = _hash_rows(Xk, yk, seed)
    order = np.argsort(key, kind="stable")
    key, Xk, yk, wk = key[order], Xk[order], yk[order], wk[order]
    # Equal hashes are equal rows up to a chance of 1e-7 in a million rows; look anyway.
    same = key[1:] == key[:-1]
    if same.any():
        where = np.flatnonzero(same)
        same[where] = (yk[where] == yk[where + 1]) & (Xk[where] == Xk[where + 1]).all(1)
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    group = np.cumsum(np.concatenate([[False], ~same]))
    index = np.full(X.shape[0], -1, dtype=np.int64)
    index[kept[order]] = group
    if first.size < key.size:
        Xk, yk, key = Xk[first], yk[first], key[first]
        wk = np.add.reduceat(wk, first)
    return CanonicalRows(Xk, yk, wk, (key >> np.uint64(1)).astype(np.int64), index)


# --- Standardisation that respects weights and does not care about units.


# Standardised values are rounded to this many decimals, so that the same data
# in other units become the same numbers to the bit and ties stay ties.
_DECIMALS = 11
# A column whose spread is this small against its size is rounding noise.
_RELATIVE_SPREAD = 1e-13
# Standardised values are clipped here, so that no square of one overflows.
FARTHEST = 1e12


@dataclass(frozen=True)
class Scaler:
    """Weighted mean and standard deviation per column; constant columns are dropped unless all are.

    Attributes
    ----------
    mean, scale : ndarray of shape (D,)
        In the units of the data; the scale of a dropped column is 1.
    kept : ndarray of shape (D,)
        Whether a column varies.
    """

    mean: FloatArray
    scale: FloatArray
    kept: npt.NDArray[np.bool_]

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
        return np.round(Z, _DECIMALS, out=Z)

    def with_all_columns(self) -> Scaler:
        """The same with constant columns kept: later rows may vary in them."""
        return Scaler(self.mean, self.scale, np.ones_like(self.kept))

    def inverse_transform(self, Z: FloatArray) -> FloatArray:
        """Rows in the units of the data; dropped columns get their mean."""
        X = np.tile(self.mean, (Z.shape[0], 1))
        X[:, self.kept] += Z * self.scale[self.kept]
        return X


def fit_scaler(X: FloatArray, weight: FloatArray) -> Scaler:
    """Weighted moments in two passes, scaled first so that squares cannot overflow."""
    total = weight.sum()
    peak = np.abs(X).max(0)
    unit = np.where(peak > 0, peak, 1.0)
    mean = (weight @ (X / unit)) / total
    spread = np.sqrt((weight @ np.square(X / unit - mean)) / total)
    return scaler_of_moments(mean, spread, unit)


def scaler_of_moments(mean: FloatArray, spread: FloatArray, unit: FloatArray) -> Scaler:
    """The scaler of columns whose mean and standard deviation, in units of about their peak, are known."""
    scale = spread * unit
    varies = (spread > _RELATIVE_SPREAD) & (scale > 0)
    kept = varies if varies.any() else np.ones_like(varies)
    return Scaler(mean * unit, np.where(varies, scale, 1.0), kept)
