"""Labels as plain values, and where they may come from: a function, a table or a file."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_oracle", "is_missing", "known_labels", "plain", "sorted_classes", "told_pairs"]

Oracle = Callable[[Any], Any]


def plain(label: Any) -> Any:
    """A label as a value that JSON can hold: str, int, float or bool."""
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, str | int | float | bool):
        raise TypeError(f"label {label!r} is a {type(label).__name__}; use text, numbers or booleans")
    return value


def is_missing(label: Any) -> bool:
    """Whether a label is None or not a number."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # a missing value of pandas is neither equal nor unequal
        return True


def sorted_classes(labels: Any) -> list[Any]:
    """Distinct labels in order, of one kind."""
    try:
        return sorted(set(labels))
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels})
        raise TypeError(
            f"labels are of different kinds ({', '.join(kinds)}); make all of them text"
        ) from None


def known_labels(labels: Any, n_rows: int) -> dict[int, Any]:
    """Labels by row, from a mapping or an array with one entry per row of the pool, some missing."""
    if labels is None:
        return {}
    if isinstance(labels, Mapping):
        pairs = list(labels.items())
    else:
        values = _one_per_row(labels, n_rows)
        pairs = list(enumerate(values))
    return {int(row): plain(label) for row, label in pairs if not is_missing(label)}


def _one_per_row(labels: Any, n_rows: int) -> npt.NDArray[Any]:
    # A list of text and nan would become all text.
    values = np.asarray(labels, dtype=None if hasattr(labels, "dtype") else object)
    if values.shape != (n_rows,):
        raise ValueError(
            f"there are labels of shape {values.shape} for {n_rows} rows of the pool; give one per row, "
            "missing ones as None or nan, or a dict from row to label"
        )
    return values


def told_pairs(rows: Any, labels: Any) -> tuple[list[int], list[Any]]:
    """Rows and as many labels, from one of each or several; none may be missing."""
    told = [int(r) for r in np.atleast_1d(rows)]
    single = isinstance(labels, str) or np.ndim(labels) == 0
    given = [labels[()] if isinstance(labels, np.ndarray) else labels] if single else list(labels)
    if len(told) != len(given):
        raise ValueError(f"there are {len(given)} labels for {len(told)} rows")
    if not told:
        raise ValueError("there are no labels to learn; use skip() for rows without one")
    for row, label in zip(told, given, strict=True):
        if is_missing(label):
            raise ValueError(f"the label of row {row} is missing; use skip() for it")
    return told, [plain(label) for label in given]


def as_oracle(source: Any, n_rows: int) -> Oracle:
    """A function from rows to labels, from whatever gives labels.

    Parameters
    ----------
    source : callable, dict, array-like or path
        A function of an array of row numbers; labels by row; one label per
        row of the pool; or a CSV file with the columns ``row`` and ``label``.
        None or nan where a label is not known.
    n_rows : int
    """
    if callable(source):
        return source
    if not isinstance(source, str | os.PathLike | Mapping):
        values = _one_per_row(source, n_rows)
        return lambda rows: [values[int(row)] for row in rows]
    table = known_labels(source, n_rows) if isinstance(source, Mapping) else _read(source)
    return lambda rows: [table.get(int(row)) for row in rows]


def _read(path: str | os.PathLike[str]) -> dict[int, Any]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if not {"row", "label"} <= set(reader.fieldnames or ()):
            raise ValueError(f"{path} must have the columns row and label; it has {reader.fieldnames}")
        pairs = [(line["row"], line["label"]) for line in reader if line["label"] not in (None, "")]
    bad = [row for row, _ in pairs if not str(row).strip().isdecimal()]
    if bad:
        raise ValueError(f"the column row of {path} holds {bad[0]!r}; give whole numbers from 0")
    values = _numbers([label for _, label in pairs])
    return {int(row): value for (row, _), value in zip(pairs, values, strict=True)}


def _numbers(texts: list[str]) -> list[Any]:
    """Texts as integers or decimals if all of them are; a file does not say what its labels were."""
    for kind in (int, float):
        try:
            return [kind(text) for text in texts]
        except ValueError:
            continue
    return list(texts)
