"""What every chunk must be, wherever its rows come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.streaming.chunks import Chunk

__all__ = ["check_labels", "checked_chunk", "checked_weights", "chunk_rows", "labels_of", "numbers"]

FloatArray = npt.NDArray[np.float64]

# Rows of a chunk, and numbers in it, at most: large enough for products, small beside any memory.
_CHUNK_ROWS = 32_768
_CHUNK_NUMBERS = 2_097_152


def chunk_rows(n_features: int) -> int:
    """Rows of a chunk with that many features."""
    return max(1, min(_CHUNK_ROWS, _CHUNK_NUMBERS // max(1, n_features)))


def checked_chunk(X: Any, y: Any, weight: Any, where: str) -> Chunk:
    """Arrays of the right types, as many labels and weights as rows."""
    if hasattr(X, "toarray"):
        raise TypeError(
            f"{where}: X is sparse, and dense numbers are needed; use X.toarray() on some rows at a time"
        )
    try:
        rows = np.asarray(numbers(X))
        if rows.dtype.kind == "c":
            raise ValueError("complex numbers are not supported")
        if rows.ndim == 2:
            rows = np.ascontiguousarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: X must hold numbers; {error}") from error
    if rows.ndim != 2:
        raise ValueError(f"{where}: expected rows and columns; got the shape {rows.shape}")
    if not rows.shape[1]:
        raise ValueError(f"{where}: X has 0 feature(s); at least one column is needed")
    labels = labels_of(f"{where}: y", y, rows.shape[0])
    check_labels(labels, where)
    return Chunk(
        rows,
        labels,
        np.ones(rows.shape[0]) if weight is None else checked_weights(weight, rows.shape[0], where),
    )


def numbers(given: Any) -> Any:
    """Values of a pandas object in double precision; what is missing becomes NaN, and is refused as such."""
    if not hasattr(given, "iloc"):
        return given
    kinds = [getattr(kind, "kind", "O") for kind in np.ravel(getattr(given, "dtypes", []))]
    return given if "c" in kinds else given.to_numpy(dtype=np.float64, na_value=np.nan)


def labels_of(name: str, values: Any, n_rows: int) -> npt.NDArray[Any]:
    """One label for every row; a single column counts as that."""
    found = np.asarray(values)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (n_rows,):
        raise ValueError(f"{name} has the shape {found.shape}; expected one label for each of {n_rows} rows")
    return found


def check_labels(y: npt.NDArray[Any], where: str) -> None:
    """Refuse rows without a label: None, or not a number."""
    if y.dtype.kind == "O":
        missing = np.asarray([label is None or label != label for label in y.tolist()], dtype=np.bool_)
    elif y.dtype.kind == "f":
        missing = np.isnan(y)
    else:
        return
    if missing.any():
        raise ValueError(f"{where}: row {int(np.argmax(missing))} of these has no label; leave such rows out")


def checked_weights(sample_weight: Any, n_rows: int, where: str = "sample_weight") -> FloatArray:
    """Weights in double precision; a number stands for all rows."""
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"{where}: weights of the shape {weight.shape} for {n_rows} rows")
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~(np.isfinite(weight) & (weight >= 0))][0]
        raise ValueError(f"{where}: weights must be finite and not negative; one given is {bad:g}")
    return weight
