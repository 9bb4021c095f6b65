"""Conversion of the input of ``HybridClassifier`` for training.

A network of the classifier's own and a device it works on; rows of any shape
and labels of any kind as tensors; rows that are held out.
"""

from __future__ import annotations

import copy
import warnings
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor, nn

# A GPU must hold more than the rows.
_SHARE_OF_MEMORY = 0.4
# What modules raise for inputs of a wrong shape or type.
_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError)


def chosen_device(device: Any, strict: bool = True) -> torch.device:
    """The device meant; "auto" is a GPU if there is one. Not strict: the CPU where a GPU is missing."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).cpu()
    except (RuntimeError, TypeError, AssertionError) as error:
        if not strict and str(device).startswith("cuda"):
            return torch.device("cpu")
        raise ValueError(
            f"device={device!r} is not valid here; it must be 'auto' or name a torch device that works, such "
            "as 'cpu' or 'cuda'"
        ) from error
    return found


def near_device(rows: Tensor, device: torch.device) -> Tensor:
    """Rows on the device, or where they are if they would fill it: then batches travel one by one."""
    if device.type == "cuda" and rows.device != device:
        free, _ = torch.cuda.mem_get_info(device)
        if rows.numel() * rows.element_size() > _SHARE_OF_MEMORY * free:
            return rows
    return rows.to(device)


def made_network(network: Any, seed: int) -> nn.Module:
    """A network of one's own: a copy of a module, or what a callable makes with this seed."""
    if isinstance(network, nn.Module):
        return copy.deepcopy(network)
    if not callable(network):
        raise ValueError(
            f"network={network!r} is not valid; it must be a torch Module that gives features, or a function "
            "that makes one"
        )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        made = network()
    if isinstance(made, tuple) and made:  # a module and its number of features
        made = made[0]
    if not isinstance(made, nn.Module):
        raise ValueError(f"network() must make a torch Module; it gave {type(made).__name__}")
    return made


def dtype_of(network: nn.Module) -> torch.dtype:
    """The type of the network's floats."""
    for parameter in network.parameters():
        if parameter.is_floating_point():
            return parameter.dtype
    return torch.float32


def first_features(network: nn.Module, rows: Tensor, seed: int) -> tuple[Tensor, torch.dtype]:
    """Features of some rows, to see that the network takes them; lazy layers get their shape.

    Whole numbers are tried as they are, then as floats.

    Returns
    -------
    features : Tensor of shape (N, D)
    dtype : torch.dtype
        In which the network takes the rows.

    Raises
    ------
    ValueError
        If it cannot take them, or gives no features.
    """
    network.eval()
    try:
        features = _tried(network, rows, seed)
    except _REFUSALS as error:
        floats = rows.to(dtype_of(network))
        if floats.dtype == rows.dtype:
            raise ValueError(
                f"the network cannot take rows of shape {tuple(rows.shape[1:])}, type {rows.dtype}: {error}"
            ) from error
        return first_features(network, floats, seed)
    if not isinstance(features, Tensor) or features.ndim != 2 or features.shape[0] != rows.shape[0]:
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(
            f"the network must give features of shape (rows, features); for {rows.shape[0]} rows it gave "
            f"{got}. Leave out its last layer and softmax, and end it with nn.Flatten() if need be"
        )
    if not bool(torch.isfinite(features).all()):
        raise ValueError("the network gives features that are not finite; scale its inputs or its weights")
    return features, rows.dtype


def _tried(network: nn.Module, rows: Tensor, seed: int) -> Any:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return network(rows)


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


class Data(NamedTuple):
    """Rows to train on and to validate on; ``held`` are the numbers of rows that were held out."""

    classes: npt.NDArray[Any]
    X: Tensor
    y: Tensor
    validation: tuple[Tensor, Tensor] | None
    held: Tensor


def divided(
    X: Any,
    y: Any,
    validation: tuple[Any, Any] | None,
    fraction: float,
    dtype: torch.dtype,
    rng: np.random.RandomState,
) -> Data:
    """What ``fit`` was given, as tensors; without validation rows a fraction of the rows is held out."""
    rows = as_rows(X, dtype)
    classes, label = labels_of(y, rows.shape[0])
    held = torch.zeros(0, dtype=torch.int64)
    if validation is not None:
        given = as_rows(validation[0], dtype, "validation X")
        return Data(classes, rows, label, (given, labels_of(validation[1], given.shape[0], classes)[1]), held)
    if fraction == 0:
        return Data(classes, rows, label, None, held)
    kept, held = held_out(label, fraction, rng)
    apart = rows[held.to(rows.device)], label[held]
    return Data(classes, rows[kept.to(rows.device)], label[kept], apart, held)
