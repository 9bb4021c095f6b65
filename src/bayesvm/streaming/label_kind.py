"""What sort of labels rows have: labels of two sorts cannot be put in order together."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["label_kind", "sort_of"]

_OF_TYPES = {**dict.fromkeys("biuf", "numbers"), "U": "texts", "S": "bytes", "M": "dates"}


def label_kind(y: npt.NDArray[Any]) -> str | None:
    """The sort of labels, that of the first where they are objects; None if there are none."""
    if not y.size:
        return None
    return sort_of(y.flat[0]) if y.dtype.kind == "O" else _OF_TYPES.get(y.dtype.kind, str(y.dtype))


def sort_of(label: Any) -> str:
    """The sort of one label: numbers, texts, or the name of its type."""
    if isinstance(label, str):
        return "texts"
    if isinstance(label, (numbers.Number, np.bool_)):
        return "numbers"
    return "bytes" if isinstance(label, bytes) else type(label).__name__
