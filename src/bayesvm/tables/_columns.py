"""Columns of a table: names and kinds of those to predict from, and labels of the target."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bayesvm._version import __version__
from bayesvm.tables._exceptions import OddValues, TableError, TableWarning, closest
from bayesvm.tables._kinds import ISO, as_kind, as_text, check_plain, is_ambiguous, recognise, simple

_PACKAGES = ("scikit-learn", "skrub", "torch", "numpy", "pandas")


class TableColumns(TransformerMixin, BaseEstimator):
    """Pick the columns of the training table, by name, and give every value its column's kind.

    A table to predict may have its columns in any order and more of them;
    one that is missing is an error. Values that do not fit the kind of their
    column become missing, with a warning. Everything fitted is plain data,
    so that a model file can say what the model was trained on.

    Parameters
    ----------
    target : str or None, default=None
        Name of the column to predict, which is never a feature.
    ignore : sequence of str, default=()
        Columns that are not used.

    Attributes
    ----------
    names_ : list of str
        Columns in use, in the order of the training table.
    kinds_ : dict of str to str
        Kind of each column in use: "number", "bool", "date", "category" or
        "text".
    ignored_ : dict of str to str
        Why each other column is not used.
    date_styles_ : dict of str to str
        How the dates of a column are written where they are text.
    categories_ : dict of str to list of str
        Values of the columns of kind "category".
    classes_ : list
        Labels of the training rows as plain values, sorted.
    class_counts_ : list of int
        Rows of each.
    n_rows_ : int
    versions_ : dict of str to str
        Packages the model was made with.
    held_out_ : dict or None
        Figures of a fit that left out some rows, if there was one
        (:func:`bayesvm.tables.fit_table` notes them here).
    calibration_ : tuple of five ndarray, or None
        What a fit without them says of rows that were held out (a
        :class:`bayesvm.LeftOut`), if there were any: they set thresholds.
    promises_ : bool
        Whether this fit is that one, so that its error rates are promises.
    """

    def __init__(self, target: str | None = None, ignore: Sequence[str] = ()) -> None:
        self.target = target
        self.ignore = ignore

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn names and kinds of the columns.

        Parameters
        ----------
        X : DataFrame
            May hold the target, which is left out.
        y : array-like or None
            Labels, only to remember how many there were of each.
        """
        table = named_columns(X)
        for name in self.ignore:
            if name not in table:
                raise TableError(f"there is no column {name!r} to ignore{closest(name, table.columns)}")
        self.names_: list[str] = []
        self.kinds_: dict[str, str] = {}
        self.ignored_ = dict.fromkeys(self.ignore, "not wanted")
        self.date_styles_: dict[str, str] = {}
        self.categories_: dict[str, list[str]] = {}
        for name in table.columns:
            if name != self.target and name not in self.ignored_:
                self._learn(name, table[name])
        if not self.names_:
            reasons = "; ".join(f"{name!r}: {why}" for name, why in self.ignored_.items())
            raise TableError(f"no column is left to predict from ({reasons or 'there is no other column'})")
        labels, counts = np.unique(np.asarray([] if y is None else y), return_counts=True)
        self.classes_ = labels.tolist()
        self.class_counts_ = counts.tolist()
        self.n_rows_ = len(table)
        self.versions_ = {"bayesvm": __version__, "python": platform.python_version()}
        self.versions_ |= {name: version(name) for name in _PACKAGES}
        self.held_out_: dict[str, Any] | None = None
        self.calibration_: tuple[npt.NDArray[np.float64], ...] | None = None
        self.promises_ = False
        return self

    def transform(self, X: Any) -> pd.DataFrame:
        """The known columns in their order, each of its kind.

        Raises
        ------
        TableError
            If a column is missing.
        """
        check_is_fitted(self)
        table = named_columns(X)
        for name in self.names_:
            if name not in table:
                raise TableError(
                    f"the table has no column {name!r}, which the model needs{closest(name, table.columns)}"
                )
        return pd.DataFrame({name: self._convert(table[name]) for name in self.names_}, index=table.index)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names of the columns in use."""
        check_is_fitted(self)
        return np.asarray(self.names_, dtype=object)

    @property
    def spelled_columns_(self) -> list[str]:
        """Columns whose values count as they are written: categories and text."""
        return [name for name in self.names_ if self.kinds_[name] in ("category", "text")]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "versions_")

    def _learn(self, name: str, column: pd.Series) -> None:
        check_plain(column)
        if _blank(column).all():
            self.ignored_[name] = "no values"
            return
        kind, style = recognise(column)
        if style != ISO and is_ambiguous(text := as_text(column), style):
            warnings.warn(
                f"column {name!r}: dates such as {text.dropna().iloc[0]!r} are read as {style}, but day and "
                "month could be the other way round; write dates as 2024-12-31 to be sure",
                TableWarning,
                stacklevel=2,
            )
        values = as_kind(column, kind, style)
        if values.nunique(dropna=False) < 2:
            self.ignored_[name] = "always the same value"
            return
        self.names_.append(name)
        self.kinds_[name] = kind
        if kind == "date":
            self.date_styles_[name] = style
        elif kind == "category":
            self.categories_[name] = sorted(values.dropna().unique().tolist())

    def _convert(self, column: pd.Series) -> pd.Series:
        """One column of its kind; warns about values that do not fit."""
        name, kind = str(column.name), self.kinds_[str(column.name)]
        check_plain(column)
        values = as_kind(column, kind, self.date_styles_.get(name, ISO))
        gone = values.isna()
        if gone.any() and kind not in ("category", "text"):
            lost = gone & ~_blank(column)
            _warn_of(column[lost], f"do not fit a column of kind {kind!r} and count as missing")
        if kind == "category":
            new = ~gone & ~values.isin(self.categories_[name])
            _warn_of(values[new], "did not occur in training; the model knows nothing about them")
        return values


def named_columns(X: Any) -> pd.DataFrame:
    """The table with its column names as strings; refuses duplicate names, and what is no table."""
    if not isinstance(X, pd.DataFrame):
        raise TableError(f"expected a pandas DataFrame, got {type(X).__name__}")
    table = X.set_axis([str(name) for name in X.columns], axis=1)
    duplicates = table.columns[table.columns.duplicated()]
    if len(duplicates):
        raise TableError(f"the table has more than one column named {duplicates[0]!r}; rename or remove one")
    return table


def _blank(column: pd.Series) -> pd.Series:
    """Where a column has no value."""
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column.isna()
    return as_text(column).isna()


def _warn_of(values: pd.Series, what: str) -> None:
    if len(values):
        odd = OddValues(str(values.name), len(values), str(values.iloc[0]), what)
        warnings.warn(odd, stacklevel=4)


# --- The target: its labels, and whether they can be classes.


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
