"""Rows in canonical form: distinct, weighted, ordered by a hash of their content.

Every random choice of a fit is keyed on this order, so the result cannot
depend on the order of the rows, on whether a row is given twice or with
weight two, or on the scale of a feature: the hash sees ranks, not values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["CanonicalRows", "canonical_rows", "hash_values", "mix"]

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
