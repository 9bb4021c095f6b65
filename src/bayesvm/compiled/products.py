"""Matrix products in pieces that a BLAS library computes on the calling thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["product"]

Array = npt.NDArray[Any]

# OpenBLAS shares larger products out among threads of its own. Ours have
# blocks of rows, and nothing is left for others to do; measured on one core,
# pieces of sixteen rows are as fast as one product (112 against 99 GFlop/s at
# 256 rows, P = 128, single precision).
_MOST_MULTIPLICATIONS = 2**18
_FEWEST_ROWS = 8


def product(A: Array, B: Array) -> Array:
    """A B for many rows A (n, K) and a small matrix B (K, M)."""
    n, K = A.shape
    size = _MOST_MULTIPLICATIONS // max(1, B.size)
    if n <= size or size < _FEWEST_ROWS:
        return A @ B
    whole = n - n % size
    out = np.empty((n, B.shape[1]), np.result_type(A, B))
    np.matmul(A[:whole].reshape(-1, size, K), B, out=out[:whole].reshape(-1, size, B.shape[1]))
    if whole < n:
        np.matmul(A[whole:], B, out=out[whole:])
    return out
