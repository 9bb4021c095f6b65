"""Fit a table: once with rows held out, to judge it, and then to all rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.pipeline import Pipeline

from bayesvm.tables.columns import TableColumns, named_columns
from bayesvm.tables.errors import TableError, TableWarning, closest
from bayesvm.tables.evaluation import Evaluation
from bayesvm.tables.pipeline import table_classifier
from bayesvm.tables.splitting import equal_rows, held_out_rows
from bayesvm.tables.target import class_labels

__all__ = ["TableFit", "fit_table"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TableFit:
    """A model of a table and how good it is.

    Attributes
    ----------
    pipeline : Pipeline
        Fitted to all rows with a label; if interrupted, perhaps to those that
        were not held out.
    table : DataFrame
        The rows with a label, target included, numbered from 0.
    source_rows : ndarray of shape (n_rows,)
        Number of each of them in the file; the first row under the header is
        1.
    target : str
    heldout : Evaluation or None
        Of a model fitted without these rows; None if there was none.
    leave_one_out : Evaluation
        Of the rows ``pipeline`` was fitted to, each predicted without itself.
    n_dropped : int
        Rows whose label was missing.
    seconds : float
        Time spent fitting.
    interrupted : bool
        Whether a fit was ended early, by Ctrl-C.
    """

    pipeline: Pipeline
    table: pd.DataFrame
    source_rows: IntArray
    target: str
    heldout: Evaluation | None
    leave_one_out: Evaluation
    n_dropped: int
    seconds: float
    interrupted: bool

    @property
    def features(self) -> list[str]:
        """Columns the model looks at."""
        return list(self.pipeline["columns"].names_)


def fit_table(
    table: pd.DataFrame,
    target: str,
    *,
    holdout: float = 0.2,
    ignore: Sequence[str] = (),
    random_state: int = 0,
    model_options: Mapping[str, Any] | None = None,
    callbacks: Sequence[Any] = (),
) -> TableFit:
    """Fit a classifier to a table and judge it on rows it has not seen.

    Parameters
    ----------
    table : DataFrame
    target : str
        Name of the column to predict.
    holdout : float, default=0.2
        Share of the rows to judge a first fit on; 0: none. The model that is
        returned is fitted to all rows.
    ignore : sequence of str, default=()
        Columns not to use.
    random_state : int, default=0
        Seed of the split and of the model.
    model_options : mapping or None
        Arguments of :class:`bayesvm.BayesianSVC`.
    callbacks : sequence
        scikit-learn callbacks of the model while it is fitted.

    Returns
    -------
    TableFit

    Raises
    ------
    TableError
        If the table or its target cannot be used.
    """
    if not 0.0 <= holdout < 1.0:
        raise TableError(
            f"holdout={holdout!r} is not valid; give a share of the rows, at least 0 and below 1"
        )
    table = named_columns(table)
    if target not in table:
        raise TableError(f"the table has no column {target!r}{closest(target, table.columns)}")
    if target in ignore:
        raise TableError(f"column {target!r} is the target and cannot be ignored")
    labels, known = class_labels(table[target])
    table = table[known].reset_index(drop=True)
    options = {"random_state": random_state, **(model_options or {})}
    job = _Job(table, labels, target, list(ignore), options, callbacks)

    start = time.perf_counter()
    everything = np.arange(len(table))
    held = job.rows_to_hold_out(holdout, random_state) if holdout > 0 else everything[:0]
    if held.size:
        rows = np.delete(everything, held)
        pipeline, heldout = job.fit_and_judge(rows, held)
        if not pipeline["model"].interrupted_:
            try:
                pipeline, rows = job.fit(everything), everything
            except KeyboardInterrupt:  # before there was anything better
                pipeline["model"].interrupted_ = True
        pipeline["columns"].held_out_ = _figures(heldout)
    else:
        pipeline, heldout, rows = job.fit(everything), None, everything
    _warn_of_rare_classes(labels)
    return TableFit(
        pipeline=pipeline,
        table=table,
        source_rows=np.flatnonzero(known) + 1,
        target=target,
        heldout=heldout,
        leave_one_out=job.evaluation(pipeline["model"].loo_proba_, rows, pipeline, "leave-one-out"),
        n_dropped=int((~known).sum()),
        seconds=time.perf_counter() - start,
        interrupted=bool(pipeline["model"].interrupted_),
    )


@dataclass(frozen=True)
class _Job:
    """What the fits of one table share."""

    table: pd.DataFrame
    labels: npt.NDArray[Any]
    target: str
    ignore: list[str]
    model_options: dict[str, Any]
    callbacks: Sequence[Any]

    def rows_to_hold_out(self, share: float, seed: int) -> IntArray:
        with _without_table_warnings():
            features = TableColumns(self.target, self.ignore).fit_transform(self.table)
        return held_out_rows(self.labels, equal_rows(features), share, seed)

    def fit(self, rows: IntArray) -> Pipeline:
        pipeline = table_classifier(self.target, ignore=self.ignore, **self.model_options)
        model = pipeline["model"]
        if self.callbacks and hasattr(model, "set_callbacks"):
            model.set_callbacks(*self.callbacks)
        pipeline.fit(self.table.iloc[rows], self.labels[rows])
        if self.callbacks and hasattr(model, "set_callbacks"):
            model.set_callbacks()  # they are no part of the model
        return pipeline

    def fit_and_judge(self, rows: IntArray, others: IntArray) -> tuple[Pipeline, Evaluation]:
        with _without_table_warnings():  # the fit to all rows will give them
            pipeline = self.fit(rows)
            proba = pipeline.predict_proba(self.table.iloc[others])
        return pipeline, self.evaluation(proba, others, pipeline, "held out")

    def evaluation(self, proba: Any, rows: IntArray, pipeline: Pipeline, origin: str) -> Evaluation:
        classes = pipeline.classes_
        majority = classes[int(np.argmax(pipeline["columns"].class_counts_))]
        return Evaluation(classes, self.labels[rows], proba, rows, origin, majority)


def _figures(evaluation: Evaluation) -> dict[str, Any]:
    """What a model file keeps of an evaluation."""
    wanted = ("rows", "accuracy", "log_loss", "baseline_accuracy", "brier", "calibration_error")
    figures = evaluation.as_dict()
    return {name: figures[name] for name in wanted}


@contextmanager
def _without_table_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        yield


def _warn_of_rare_classes(labels: npt.NDArray[Any]) -> None:
    classes, counts = np.unique(labels, return_counts=True)
    rare = classes[counts == 1].tolist()
    if rare:
        shown = ", ".join(repr(label) for label in rare[:3]) + (", ..." if len(rare) > 3 else "")
        warnings.warn(
            f"{len(rare)} class(es) have a single row ({shown}): nobody can tell how well they are predicted",
            TableWarning,
            stacklevel=3,
        )
