"""Which rows to hold out: every class in its share, and equal rows together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["equal_rows", "held_out_rows"]

IntArray = npt.NDArray[np.int64]


def equal_rows(table: pd.DataFrame) -> IntArray:
    """A number per row, the same for rows that are equal in every column."""
    codes = np.zeros(len(table), dtype=np.int64)
    for name in table.columns:
        column = pd.factorize(table[name], use_na_sentinel=False)[0]
        codes = np.unique(codes * (int(column.max()) + 1) + column, return_inverse=True)[1]
    return codes


def held_out_rows(labels: npt.NDArray[Any], groups: IntArray, share: float, seed: int) -> IntArray:
    """Positions of the rows to hold out, in order.

    Each class gives its share, rounded so that the total is right; rows of
    one group stay together, and every class keeps at least one row for
    training.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
    groups : ndarray of shape (n_rows,)
    share : float
        Of the rows, between 0 and 1.
    seed : int
    """
    rng = np.random.default_rng(seed)
    _, index, counts = np.unique(labels, return_inverse=True, return_counts=True)
    quota = _rounded(share * counts)
    order = rng.permutation(int(groups.max()) + 1)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    size = np.bincount(groups)
    leader = index[np.unique(groups, return_index=True)[1]]
    held = np.zeros(len(size), dtype=bool)
    taken = np.zeros(len(counts), dtype=np.int64)
    for group in order:
        c = leader[group]
        if taken[c] + size[group] <= quota[c]:
            held[group] = True
            taken[c] += size[group]
    # A group may hold rows of several classes: give back what would leave a class without any.
    for c in range(len(counts)):
        own = np.unique(groups[index == c])
        if held[own].all():
            held[own] = False
    return np.flatnonzero(held[groups])


def _rounded(shares: npt.NDArray[np.floating]) -> IntArray:
    """Whole numbers with the rounded total, the largest remainders rounded up."""
    floor = np.floor(shares).astype(np.int64)
    missing = round(float(shares.sum())) - int(floor.sum())
    up = np.argsort(floor - shares, kind="stable")[:missing]
    floor[up] += 1
    return floor
