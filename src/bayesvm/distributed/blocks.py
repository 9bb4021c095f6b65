"""What workers make of one block: chunks of rows, from numpy or pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.streaming.checks import checked_chunk, chunk_rows, numbers
from bayesvm.streaming.chunks import Chunk, joined_alike

__all__ = ["chunks_of", "joined_chunks"]


def joined_chunks(*groups: list[Chunk]) -> list[Chunk]:
    """The rows of several blocks as one chunk, or more where their labels differ in sort."""
    return joined_alike(chunk for group in groups for chunk in group)


def chunks_of(block: int, X: Any, y: Any, weight: Any) -> list[Chunk]:
    """Chunks of one block; columns that are named are taken out of X."""
    where = f"block {block}"
    named = [given for given in (y, weight) if isinstance(given, str)]
    y = X[y] if isinstance(y, str) else y
    weight = X[weight] if isinstance(weight, str) else weight
    X = X.drop(columns=named) if named else X
    _check_same_rows(X, y, f"{where} of y")
    if weight is not None and np.ndim(weight) > 0:
        _check_same_rows(X, weight, f"{where} of sample_weight")
    chunk = checked_chunk(X, _labels(y), None if weight is None else numbers(weight), where)
    rows = chunk_rows(chunk.X.shape[1])
    return [Chunk(*(part[at : at + rows] for part in chunk)) for at in range(0, len(chunk.y), rows)]


def _check_same_rows(X: Any, other: Any, what: str) -> None:
    if len(X) != len(other):
        raise ValueError(
            f"{what} has {len(other)} entries, and there are {len(X)} rows of X: they must be taken from the "
            "same data in the same order"
        )
    if hasattr(X, "index") and hasattr(other, "index") and not X.index.equals(other.index):
        raise ValueError(f"{what} has another index than X: they must be taken from the same data frame")


def _labels(y: Any) -> npt.NDArray[Any]:
    if not hasattr(y, "to_numpy"):
        return np.asarray(y)
    missing = y.isna().to_numpy()
    # Nullable integers would become objects; what is missing is refused as None.
    labels = np.asarray(y.to_numpy(dtype=None if missing.any() else getattr(y.dtype, "numpy_dtype", None)))
    if missing.any():
        labels = labels.astype(object)
        labels[missing] = None
    return labels
