"""Artificial rows that several benchmarks use."""

from __future__ import annotations

import numpy as np

__all__ = ["clusters"]


def clusters(N: int, D: int, C: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around one centre per class, close enough for classes to overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(C, size=N)
    X = rng.standard_normal((N, D))
    X += rng.standard_normal((C, D))[y]
    return X, y
