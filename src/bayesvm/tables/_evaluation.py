"""How good predictions are: labels and probabilities, and every figure that follows from them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types
from sklearn.pipeline import Pipeline

from bayesvm.metrics import expected_calibration_error, wilson_interval
from bayesvm.tables._columns import named_columns
from bayesvm.tables._kinds import TableError, TableWarning, as_text, check_plain, closest, simple

# --- The column to predict: what its labels are, and whether they can be classes.


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


FloatArray = npt.NDArray[np.floating]
_RESAMPLES = 1000
# Beyond this many rows the bootstrap and the normal interval agree to the digits shown.
_BOOTSTRAP_ROWS = 20_000
_NORMAL_95 = 1.959963984540054


class Interval(NamedTuple):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """True labels and predicted probabilities of some rows.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    labels : ndarray of shape (n_rows,)
        The truth.
    proba : ndarray of shape (n_rows, n_classes)
    rows : ndarray of shape (n_rows,)
        Positions of the rows in the table.
    origin : str
        "held out", "leave-one-out" or "new table".
    majority : label
        The most frequent class of the training rows, the answer to beat.
    n_unlabelled : int
        Rows left out because their label is missing.
    unseen : dict of str to int
        Rows left out because their label did not occur in training.
    """

    classes: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    proba: FloatArray
    rows: npt.NDArray[np.int64]
    origin: str
    majority: Any
    n_unlabelled: int = 0
    unseen: dict[str, int] = field(default_factory=dict)

    @cached_property
    def predicted(self) -> npt.NDArray[Any]:
        """The most probable class of each row."""
        return self.classes[self.proba.argmax(1)]

    @cached_property
    def correct(self) -> npt.NDArray[np.bool_]:
        """Where that is the label."""
        return np.asarray(self.predicted == self.labels)

    @cached_property
    def accuracy(self) -> Interval:
        """Share of correct rows, with Wilson's interval."""
        low, high = wilson_interval([self.correct.sum()], [len(self.labels)])
        return Interval(float(self.correct.mean()), float(low[0]), float(high[0]))

    @cached_property
    def log_loss(self) -> Interval:
        """Mean negative log-probability of the labels, with a bootstrap interval over rows."""
        own = self.proba[np.arange(len(self.labels)), self._index]
        loss = -np.log(np.maximum(own, np.finfo(np.float64).tiny))
        return _mean_interval(loss)

    @cached_property
    def baseline_accuracy(self) -> float:
        """Accuracy of always answering the most frequent class of the training rows."""
        return float((self.labels == self.majority).mean())

    @cached_property
    def brier(self) -> float:
        """Mean squared distance between probabilities and truth, summed over classes: 0 best, 2 worst."""
        own = self.proba[np.arange(len(self.labels)), self._index]
        return float((np.square(self.proba).sum(1) - 2.0 * own + 1.0).mean())

    @cached_property
    def calibration_error(self) -> float:
        """Mean gap between confidence and accuracy (:func:`bayesvm.metrics.expected_calibration_error`)."""
        return expected_calibration_error(self.labels, self.proba, labels=self.classes)

    @cached_property
    def confusion(self) -> npt.NDArray[np.int64]:
        """Rows of each true class (first axis) by predicted class."""
        n = len(self.classes)
        cells = self._index * n + self.proba.argmax(1)
        return np.bincount(cells, minlength=n * n).reshape(n, n)

    @property
    def mistakes(self) -> list[tuple[int, int]]:
        """Pairs of a true and another predicted class that occur, by position, most frequent first."""
        wrong = self.confusion.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[: int((wrong > 0).sum())]
        true, predicted = np.unravel_index(order, wrong.shape)
        return list(zip(true.tolist(), predicted.tolist(), strict=True))

    @cached_property
    def _index(self) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.classes, self.labels)

    def answered(self, threshold: float) -> tuple[float, Interval | None]:
        """Share of rows with at least this confidence, and the accuracy among them."""
        kept = self.proba.max(1) >= threshold
        if not kept.any():
            return 0.0, None
        low, high = wilson_interval([self.correct[kept].sum()], [kept.sum()])
        return float(kept.mean()), Interval(float(self.correct[kept].mean()), float(low[0]), float(high[0]))

    def as_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        return {
            "origin": self.origin,
            "rows": len(self.labels),
            "rows_without_label": self.n_unlabelled,
            "rows_with_unseen_label": dict(self.unseen),
            "accuracy": self.accuracy._asdict(),
            "log_loss": self.log_loss._asdict(),
            "baseline_accuracy": self.baseline_accuracy,
            "brier": self.brier,
            "calibration_error": self.calibration_error,
            "classes": self.classes.tolist(),
            "confusion": self.confusion.tolist(),
        }


def evaluate_table(pipeline: Pipeline, table: pd.DataFrame) -> Evaluation:
    """Judge a fitted pipeline on the rows of another table, which holds the target too.

    Rows without a label, or with one that did not occur in training, are
    left out and counted. Rows that the model was trained on flatter it; as
    far as it remembers them, it says so.

    Raises
    ------
    TableError
        If the table lacks a column, or no label is known.
    """
    table = named_columns(table)
    target = pipeline["columns"].target
    if target not in table:
        hint = closest(str(target), table.columns)
        raise TableError(f"the table has no column {target!r}, which the model predicts{hint}")
    classes = pipeline.classes_
    labels, known, unseen = find_labels(table[target], classes)
    rows = np.flatnonzero(known)
    if not rows.size:
        some = ", ".join(repr(label) for label in classes[:5].tolist())
        raise TableError(f"no row has a label in column {target!r} that the model knows, such as {some}")
    X = np.asarray(pipeline[:-1].transform(table.iloc[rows]))
    _warn_of_training_rows(pipeline["model"], X)
    return Evaluation(
        classes=classes,
        labels=labels[rows],
        proba=pipeline["model"].predict_proba(X),
        rows=rows,
        origin="new table",
        majority=classes[int(np.argmax(pipeline["columns"].class_counts_))],
        n_unlabelled=len(table) - rows.size - sum(unseen.values()),
        unseen=unseen,
    )


def _warn_of_training_rows(model: Any, X: FloatArray) -> None:
    remembered = {row.tobytes() for row in np.ascontiguousarray(model.memory_.X, dtype=np.float64)}
    seen = sum(row.tobytes() in remembered for row in np.ascontiguousarray(X, dtype=np.float64))
    if seen:
        warnings.warn(
            f"{seen} of {len(X)} rows are among those the model was trained on; figures on them are too good",
            TableWarning,
            stacklevel=3,
        )


def _mean_interval(values: FloatArray) -> Interval:
    """Mean with the 95 % percentile interval of a seeded bootstrap over rows."""
    n = len(values)
    mean = float(values.mean())
    if n > _BOOTSTRAP_ROWS:
        half = _NORMAL_95 * float(values.std()) / n**0.5
        return Interval(mean, mean - half, mean + half)
    rng = np.random.default_rng(0)
    means = [values[rng.integers(n, size=n)].mean() for _ in range(_RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(mean, float(low), float(high))
