"""Reading the files of ``cifar-10-batches-py``, which are pickles, without running what a pickle may hold."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets.errors import DatasetError

PIXELS = 3 * 32 * 32
N_CLASSES = 10


class Batch(NamedTuple):
    """Images (n, 3, 32, 32) and labels of one file."""

    X: npt.NDArray[np.uint8]
    y: npt.NDArray[np.int64]


class _Array:
    """What stands for a numpy array while a pickle is read: it only remembers its state."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Type:
    """What stands for a numpy dtype: it only remembers its name."""

    def __init__(self, name: Any = None, *rest: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment, which single bytes do not have."""


def _empty_array(kind: Any = None, shape: Any = None, code: Any = None) -> _Array:
    return _Array()


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """How pickles of protocol 2 that Python 3 wrote spell bytes."""
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"unexpected encoding {encoding!r}")
    return text.encode("latin1")


# All that the published files name, and what numpy 2 and Python 3 write for the same content. None of it
# is numpy's own: a file decides neither which function runs nor what memory an array uses.
_STANDS_FOR = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encoded,
}


class _BatchUnpickler(pickle.Unpickler):
    """Knows the names above and no other."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _STANDS_FOR[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no such file does") from None


def read_batch(path: Path) -> Batch:
    """Read one of the files ``data_batch_1`` to ``data_batch_5`` and ``test_batch``.

    A file is a pickled dictionary; ``data`` is an array of unsigned bytes
    with 3072 columns (the red, green and blue planes of 32 x 32 pixels, row
    by row), ``labels`` a list of integers.

    Parameters
    ----------
    path : Path
    """
    advice = "remove it and get it again"
    try:
        with path.open("rb") as file:
            content = _BatchUnpickler(file, encoding="bytes").load()
    except Exception as error:  # a damaged pickle may raise anything
        raise DatasetError(f"{path} cannot be read: {error}; {advice}") from error
    if not isinstance(content, dict):
        raise DatasetError(f"{path} holds no dictionary; {advice}")
    data, labels = content.get(b"data"), content.get(b"labels")
    X, y = _pixels(data), _labels(labels)
    if X is None or y is None or len(X) != len(y):
        raise DatasetError(
            f"{path} is no batch of CIFAR-10: it needs 'data' (n x {PIXELS} unsigned bytes) and 'labels' "
            f"(n integers from 0 to {N_CLASSES - 1}); {advice}"
        )
    return Batch(X.reshape(-1, 3, 32, 32), y)


def _pixels(array: Any) -> npt.NDArray[np.uint8] | None:
    """The array that a pickle describes, if it is one of bytes with 3072 columns."""
    if not isinstance(array, _Array):
        return None
    match array.state:
        case (
            int(),
            (int(rows), int(columns)),
            _Type(name=(b"u1" | "u1")),
            bool() | int() as by_columns,
            bytes(raw),
        ):
            pass
        case _:
            return None
    if columns != PIXELS or rows < 1 or len(raw) != math.prod((rows, columns)):
        return None
    flat = np.frombuffer(raw, np.uint8)
    return flat.reshape((rows, columns), order="F" if by_columns else "C").copy(order="C")


def _labels(labels: Any) -> npt.NDArray[np.int64] | None:
    """A list of classes as an array."""
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        return None
    if not labels or min(labels) < 0 or max(labels) >= N_CLASSES:
        return None
    return np.array(labels, np.int64)
