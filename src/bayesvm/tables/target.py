"""The column to predict: what its labels are, and whether they can be classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from bayesvm.tables.errors import TableError
from bayesvm.tables.kinds import as_text, check_plain, simple

__all__ = ["class_labels", "find_labels"]

# A class may well be called "none" or "-": no label is only where nothing is written.
_NO_LABEL = ("",)
# More different fractions than this are a quantity, not classes.
_MOST_FRACTIONS = 20
# Beyond this floating-point numbers are not whole numbers any more.
_LARGEST_WHOLE = 2**53


def class_labels(column: pd.Series) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Labels of the training rows, and where there is one.

    Whole numbers and truth values stay what they are; anything else becomes
    text. Words such as "none" are labels like any other.

    Returns
    -------
    labels : ndarray of shape (n_known,)
    known : ndarray of shape (n_rows,)

    Raises
    ------
    TableError
        If the column cannot be a target.
    """
    name = column.name
    check_plain(column)
    column = _values(column)
    text = as_text(column, _NO_LABEL)
    known = text.notna().to_numpy()
    text = text[known]
    n_rows, n_classes = len(text), text.nunique()
    if n_classes == 0:
        raise TableError(f"the target {name!r} has no values; choose another column")
    if n_classes == 1:
        raise TableError(f"the target {name!r} is always {text.iloc[0]!r}; two or more classes are needed")
    values = column[known].infer_objects()
    truth = types.is_bool_dtype(values.dtype)
    numeric = types.is_numeric_dtype(values.dtype) and not truth
    numbers = values.to_numpy(np.float64) if numeric else np.empty(0)
    whole = numeric and bool(((numbers == np.round(numbers)) & (np.abs(numbers) <= _LARGEST_WHOLE)).all())
    if numeric and not whole and n_classes > _MOST_FRACTIONS:
        raise TableError(
            f"the target {name!r} is a quantity ({n_classes} different numbers in {n_rows} rows); "
            "choose another column, or cut it into classes first"
        )
    if n_rows < 2 * n_classes and n_classes > 2:
        raise TableError(
            f"the target {name!r} has {n_classes} different values in {n_rows} rows, too many to be classes; "
            "choose another column"
        )
    if truth:
        return values.to_numpy(np.bool_), known
    return (values.to_numpy(np.int64) if whole else text.to_numpy(np.str_)), known


def find_labels(
    column: pd.Series, classes: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_], dict[str, int]]:
    """Labels of a new table in terms of known classes.

    Returns
    -------
    labels : ndarray of shape (n_rows,)
        Only meaningful where known.
    known : ndarray of shape (n_rows,)
        Where the label is one of the classes.
    unseen : dict of str to int
        How often other labels occur, the most frequent first.
    """
    check_plain(column)
    text = as_text(_values(column), _NO_LABEL)
    words = as_text(pd.Series(classes), _NO_LABEL)
    position = text.map({word: i for i, word in enumerate(words)}).to_numpy(np.float64)
    known = np.isfinite(position)
    labels = classes[np.where(known, position, 0).astype(np.int64)]
    unseen = text[~known].dropna().value_counts()
    return labels, known, {str(label): int(count) for label, count in unseen.items()}


def _values(column: pd.Series) -> pd.Series:
    """The column without categories around its values, and without infinite numbers."""
    column = simple(column)
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = pd.Series(column.to_numpy(), column.index, name=column.name).infer_objects()
    if types.is_float_dtype(column.dtype):
        column = column.where(np.isfinite(column.to_numpy(np.float64, na_value=np.nan)))
    return column
