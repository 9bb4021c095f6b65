"""The pool: an array or a data frame of rows, few of which have labels."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_pool", "check_rows", "fingerprint", "part"]

IntArray = npt.NDArray[np.int64]


def as_pool(pool: Any) -> Any:
    """A data frame as it is, anything else as an array of rows."""
    if hasattr(pool, "iloc"):
        return pool
    if hasattr(pool, "toarray"):
        raise TypeError(f"the pool is a sparse {type(pool).__name__}; give pool.toarray()")
    X = np.asarray(pool)
    if X.ndim < 2 or not len(X):
        raise ValueError(f"the pool has shape {X.shape}; give one row per thing to label")
    return np.ascontiguousarray(X)


def part(pool: Any, rows: IntArray) -> Any:
    """Some rows of a pool."""
    return pool.iloc[rows] if hasattr(pool, "iloc") else pool[rows]


def check_rows(rows: Collection[int], n_rows: int) -> None:
    """Refuse rows that are not in the pool or named twice."""
    for row in rows:
        if not 0 <= row < n_rows:
            raise ValueError(f"row {row} is not in the pool of {n_rows} rows")
    if len(set(rows)) != len(rows):
        raise ValueError(f"rows {list(rows)} name a row twice")


def fingerprint(pool: Any) -> str:
    """A hash of the content of a pool."""
    if hasattr(pool, "iloc"):
        return hashlib.blake2b(pool.to_csv(index=False).encode(), digest_size=16).hexdigest()
    X = np.ascontiguousarray(pool)
    if X.dtype == object:
        return hashlib.blake2b(repr(X.tolist()).encode(), digest_size=16).hexdigest()
    digest = hashlib.blake2b(f"{X.shape}{X.dtype.str}".encode(), digest_size=16)
    digest.update(X.view(np.uint8).reshape(-1).data if X.size else b"")
    return digest.hexdigest()
