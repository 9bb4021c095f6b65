"""From what users give to tensors: rows of any shape, labels of any kind."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

__all__ = ["as_rows", "held_out", "labels_of"]


def as_rows(X: Any, dtype: torch.dtype, name: str = "X") -> Tensor:
    """Rows as a tensor: floats in the network's type, whole numbers as they are.

    Raises
    ------
    ValueError
        If these are no numbers, there are none, or some are not finite.
    """
    if not isinstance(X, Tensor):
        if hasattr(X, "tocsr"):
            raise ValueError(f"{name} is a sparse matrix; networks take dense arrays: {name}.toarray()")
        array = np.asarray(X)
        if array.dtype.kind == "O":
            with suppress(ValueError):  # what cannot be a number at all is a TypeError
                array = array.astype(np.float64)
        if array.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: {name} is {array.dtype}")
        if array.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} must be an array of numbers, the same number for every row; got {array.dtype} data"
            )
        if array.dtype.kind == "f" and array.dtype.itemsize > 8:
            array = array.astype(np.float64)
        if not array.dtype.isnative or not array.flags.writeable or any(s < 0 for s in array.strides):
            array = array.astype(array.dtype.newbyteorder("="))  # torch shares memory with what it can
        X = torch.from_numpy(array)
    rows: Tensor = X.detach()
    if rows.ndim < 2:
        raise ValueError(
            f"{name} must have a row for every example; got an array of shape {tuple(rows.shape)}. Reshape "
            "your data: X.reshape(-1, 1) if it holds one feature, X.reshape(1, -1) if it is one example"
        )
    if rows.numel() == 0:
        what = "sample" if rows.shape[0] == 0 else "feature"
        raise ValueError(
            f"Found array with 0 {what}(s) (shape={tuple(rows.shape)}) while a minimum of 1 is required."
        )
    if rows.is_complex():
        raise ValueError(f"Complex data not supported: {name} is {rows.dtype}")
    if rows.is_floating_point():
        rows = rows.to(dtype)
        finite = torch.isfinite(rows).flatten(1).all(1)
        if not bool(finite.all()):
            bad = torch.nonzero(~finite)[:, 0]
            raise ValueError(
                f"{name} holds NaN or infinity in {len(bad)} of {len(rows)} rows, the first of them row "
                f"{int(bad[0])}; fill in or leave out such values"
            )
    return rows


def labels_of(
    y: Any, n_rows: int, classes: npt.NDArray[Any] | None = None
) -> tuple[npt.NDArray[Any], Tensor]:
    """Sorted labels and the index of each row's label among them.

    Raises
    ------
    ValueError
        If y is not one label per row, holds NaN, fewer than two classes, or
        a label that ``classes`` lacks.
    """
    if y is None:
        raise ValueError("This classifier requires y to be passed, but the target y is None")
    label = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if label.ndim == 2 and label.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected", DataConversionWarning, stacklevel=5
        )
        label = label[:, 0]
    if label.ndim != 1:
        raise ValueError(
            f"y must hold one label for each row; got shape {label.shape}. If rows of y are indicators of "
            "classes, give y.argmax(1)"
        )
    if len(label) != n_rows:
        raise ValueError(f"y holds {len(label)} labels for the {n_rows} rows of X")
    if label.dtype.kind == "f" and not np.isfinite(label).all():
        raise ValueError("y holds NaN or infinity; leave out rows whose class is unknown")
    if label.dtype.kind == "O" and len({type(value) for value in label.tolist()}) > 1:
        raise ValueError("y holds labels of different types; give numbers or strings")
    check_classification_targets(label)
    found = np.unique(label)
    if classes is None:
        classes = found
        if len(classes) < 2:
            raise ValueError(f"a classifier needs at least two classes; y holds one class, {classes[0]!r}")
    unknown = np.setdiff1d(found, classes)
    if unknown.size:
        raise ValueError(f"y holds the labels {unknown.tolist()[:5]}, which no training row has")
    return classes, torch.from_numpy(np.searchsorted(classes, label).astype(np.int64))


def held_out(y: Tensor, fraction: float, rng: np.random.RandomState) -> tuple[Tensor, Tensor]:
    """Row numbers to train on and to validate on; classes keep their shares, and a training row each."""
    label = y.numpy()
    counts = np.bincount(label)
    wanted = counts * fraction
    taken = np.floor(wanted).astype(np.int64)
    short = max(1, round(len(label) * fraction)) - int(taken.sum())
    # What rounding down has left goes to the largest remainders, ties at random.
    room = np.where(counts > taken + 1, wanted - taken, -1.0)
    for c in np.lexsort((rng.uniform(size=len(counts)), -room))[:short]:
        taken[c] += room[c] >= 0
    taken = np.minimum(taken, np.maximum(counts - 1, 0))
    if not taken.any():
        raise ValueError(
            f"validation_fraction={fraction} leaves no row to validate on: every class has a single row; set "
            "validation_fraction=0"
        )
    order = rng.permutation(len(label))
    chosen = np.concatenate([order[label[order] == c][: taken[c]] for c in range(len(counts))])
    rest = np.setdiff1d(np.arange(len(label)), chosen)
    return torch.from_numpy(rest), torch.from_numpy(np.sort(chosen))
