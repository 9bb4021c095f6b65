"""Evaluation: the figures of predicted probabilities against true labels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.pipeline import Pipeline

from bayesvm._formatting import plural
from bayesvm._judgement import Gain, LeftOut, gain_over_frequencies
from bayesvm.metrics import expected_calibration_error, wilson_interval
from bayesvm.tables._columns import find_labels, named_columns
from bayesvm.tables._exceptions import TableError, TableWarning, closest

FloatArray = npt.NDArray[np.floating]
_RESAMPLES = 1000
# Beyond this many rows the bootstrap and the normal interval agree to the digits shown.
_BOOTSTRAP_ROWS = 20_000
_NORMAL_95 = 1.959963984540054


HELD_OUT, LEAVE_ONE_OUT, NEW_TABLE = "held out", "leave-one-out", "new table"


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
        Which rows they are: ``HELD_OUT``, ``LEAVE_ONE_OUT`` or ``NEW_TABLE``.
    counts : ndarray of shape (n_classes,)
        Training rows of each class: what to say without a model.
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
    counts: npt.NDArray[Any]
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
    def left_out(self) -> LeftOut:
        """What the probabilities say of these rows."""
        return LeftOut.of(self.proba, self._index)

    @cached_property
    def accuracy(self) -> Interval:
        """Share of correct rows, with Wilson's interval."""
        low, high = wilson_interval([self.correct.sum()], [len(self.labels)])
        return Interval(float(self.correct.mean()), float(low[0]), float(high[0]))

    @cached_property
    def log_loss(self) -> Interval:
        """Mean negative log-probability of the labels, with a bootstrap interval over rows."""
        return _mean_interval(-np.log(self.left_out.label_proba))

    @cached_property
    def gain(self) -> Gain:
        """Gain in log-loss over the class frequencies of the training rows."""
        return gain_over_frequencies(
            self.left_out.label_proba, self._index, self.counts, left_out=self.origin == LEAVE_ONE_OUT
        )

    @property
    def rows_in_words(self) -> str:
        """Which rows the figures come from."""
        rows = plural(len(self.labels), "row")
        if self.origin == LEAVE_ONE_OUT:
            return f"leave-one-out of the {rows} it learned from"
        return f"the {rows} {'held out' if self.origin == HELD_OUT else 'of the new table'}"

    @property
    def majority(self) -> Any:
        """The most frequent class of the training rows, the answer to beat."""
        return self.classes[int(np.argmax(self.counts))]

    @cached_property
    def baseline_accuracy(self) -> float:
        """Accuracy of always answering the most frequent class of the training rows."""
        return float((self.labels == self.majority).mean())

    @cached_property
    def brier(self) -> float:
        """Mean squared distance between probabilities and truth, summed over classes: 0 best, 2 worst."""
        return float((np.square(self.proba).sum(1) - 2.0 * self.left_out.label_proba + 1.0).mean())

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
            "baseline_log_loss": self.gain.of_frequencies,
            "better_than_frequencies": self.gain.is_certain,
            "brier": self.brier,
            "calibration_error": self.calibration_error,
            "classes": self.classes.tolist(),
            "confusion": self.confusion.tolist(),
        }


def evaluate_table(pipeline: Pipeline, table: pd.DataFrame) -> Evaluation:
    """Judge a fitted pipeline on the rows of another table, which holds the target too.

    Rows without a label, or with one that did not occur in training, are
    left out and counted. Rows that the model was trained on make it look too
    good; a warning counts those that it remembers.

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
    X = pipeline[:-1].transform(table.iloc[rows])
    _warn_of_training_rows(pipeline["model"], X)
    return Evaluation(
        classes=classes,
        labels=labels[rows],
        proba=pipeline["model"].predict_proba(X),
        rows=rows,
        origin=NEW_TABLE,
        counts=np.asarray(pipeline["columns"].class_counts_),
        n_unlabelled=len(table) - rows.size - sum(unseen.values()),
        unseen=unseen,
    )


def _warn_of_training_rows(model: Any, X: Any) -> None:
    X, remembered = model._ready(X)[1], model.memory_.X
    if model._columns is not None:  # target means are those of other rows in training
        X, remembered = X[:, model._columns.plain], remembered[:, model._columns.plain]
    known = {row.tobytes() for row in np.ascontiguousarray(remembered)}
    seen = sum(row.tobytes() in known for row in np.ascontiguousarray(X))
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
