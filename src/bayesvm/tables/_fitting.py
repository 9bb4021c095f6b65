"""Fitting a table: once with rows held out, to judge the model, and then to all rows.

With an error rate to guarantee, the first model is kept: the guarantee rests on rows it has not seen.
"""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.pipeline import Pipeline

from bayesvm._judgement import LeftOut, NothingLearnedWarning, TooFewRowsWarning, rows_needed
from bayesvm._svc import BayesianSVC
from bayesvm.tables._columns import TableColumns, class_labels, named_columns
from bayesvm.tables._evaluation import HELD_OUT, LEAVE_ONE_OUT, Evaluation
from bayesvm.tables._exceptions import TableError, TableWarning, closest
from bayesvm.tables._pipeline import table_classifier
from bayesvm.tables._predictions import PROMISED_WITH, abstention_threshold, calibration_of, cannot_promise

IntArray = npt.NDArray[np.int64]
# With fewer held-out rows their figures are mostly chance.
FEWEST_HELD_OUT = 20
_NO_ROWS = (np.empty(0),) * 5


@dataclass(frozen=True)
class TableFit:
    """A model of a table and how good it is.

    Attributes
    ----------
    pipeline : Pipeline
        Fitted to all rows with a label; if it promises an error rate, or was
        interrupted, perhaps to those that were not held out.
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
    heldout_pipeline : Pipeline or None
        The model that did not see the held-out rows; None if there was none.
    n_dropped : int
        Rows whose label was missing.
    seconds : float
        Time spent fitting.
    interrupted : bool
        Whether the work was ended early, by Ctrl-C.
    """

    pipeline: Pipeline
    table: pd.DataFrame
    source_rows: IntArray
    target: str
    heldout: Evaluation | None
    leave_one_out: Evaluation
    heldout_pipeline: Pipeline | None
    n_dropped: int
    seconds: float
    interrupted: bool

    @property
    def features(self) -> list[str]:
        """Columns the model uses."""
        return list(self.pipeline["columns"].names_)

    @property
    def judged(self) -> Evaluation:
        """What the model is judged by: the held-out rows, unless there are too few of them."""
        if self.heldout is not None and len(self.heldout.labels) >= FEWEST_HELD_OUT:
            return self.heldout
        return self.leave_one_out

    @property
    def evaluations(self) -> list[Evaluation]:
        """All there are: first the held-out rows, then leave-one-out."""
        left = self.leave_one_out
        return [left] if self.heldout is None or left is self.heldout else [self.heldout, left]

    @property
    def doubt(self) -> str:
        """A sentence that the model is no better than the class frequencies, if it is not; else empty."""
        judged, left = self.judged, self.leave_one_out
        if judged.gain.is_certain:
            return ""
        doubt = judged.gain.doubt(judged.rows_in_words)
        if left is not judged and left.gain.is_certain:
            doubt += f". By {left.rows_in_words} they are better, which tends to flatter"
        return doubt

    @property
    def promises(self) -> bool:
        """Whether held-out rows promise error rates of the answers of ``pipeline``."""
        return bool(self.pipeline["columns"].promises_)

    def abstention_threshold(self, max_error: float) -> float:
        """Confidence below which ``pipeline`` hands a row to a person to keep an error rate."""
        return abstention_threshold(self.pipeline, max_error)


def fit_table(
    table: pd.DataFrame,
    target: str,
    *,
    holdout: float = 0.2,
    max_error: float | None = None,
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
        returned is fitted to all rows, unless ``max_error`` is given.
    max_error : float or None
        Error rate to promise where the model answers. The model that did not
        see the held-out rows is then the one returned, and these rows decide
        from which confidence on it answers, at this rate and others
        (docs/guarantees.md).
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
    if max_error is not None and holdout == 0:
        raise TableError("an error rate is promised by rows that are held out; give holdout above 0")
    if target in ignore:
        raise TableError(f"column {target!r} is the target and cannot be ignored")
    labels, known = class_labels(table[target])
    table = table[known].reset_index(drop=True)
    options = {"random_state": random_state, **(model_options or {})}
    job = _Job(table, labels, target, list(ignore), options, callbacks)

    start = time.perf_counter()
    rows = everything = np.arange(len(table))
    held = job.rows_to_hold_out(holdout, random_state) if holdout > 0 else everything[:0]
    heldout_pipeline = heldout = None
    if held.size:
        rows = np.delete(everything, held)
        fit_first = job.fit_quietly if max_error is None else job.fit
        pipeline = heldout_pipeline = fit_first(rows)
        try:  # there is a model now: Ctrl-C ends the work, but nothing is thrown away
            heldout = job.judge(pipeline, held)
            pipeline["columns"].calibration_ = tuple(heldout.left_out)
            if max_error is None and not pipeline["model"].interrupted_:
                pipeline, rows = job.fit(everything), everything
                pipeline["columns"].calibration_ = tuple(_judges(pipeline, heldout))
        except KeyboardInterrupt:
            pipeline["model"].interrupted_ = True
    else:
        pipeline = job.fit(everything)
    with held_interrupts() as interrupts:
        if max_error is not None:
            columns = pipeline["columns"]
            columns.promises_, columns.calibration_ = True, columns.calibration_ or _NO_ROWS
        pipeline["columns"].held_out_ = None if heldout is None else _figures(heldout)
        warn_of_labels(labels, target)
        warn_of_split(holdout, len(table), heldout_pipeline)
        if max_error is not None:
            warn_of_promise(pipeline, max_error, holdout)
        fit = TableFit(
            pipeline=pipeline,
            table=table,
            source_rows=np.flatnonzero(known) + 1,
            target=target,
            heldout=heldout,
            leave_one_out=job.left_out(pipeline, rows, heldout),
            heldout_pipeline=heldout_pipeline,
            n_dropped=int((~known).sum()),
            seconds=time.perf_counter() - start,
            interrupted=bool(pipeline["model"].interrupted_),
        )
        if fit.doubt:
            warnings.warn(fit.doubt, NothingLearnedWarning, stacklevel=2)
    return replace(fit, interrupted=fit.interrupted or interrupts.pressed)


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
        with warnings.catch_warnings():  # held-out rows, where there are some, are the judgement
            warnings.simplefilter("ignore", NothingLearnedWarning)
            pipeline.fit(self.table.iloc[rows], self.labels[rows])
        if self.callbacks and hasattr(model, "set_callbacks"):
            model.set_callbacks()  # they are no part of the model
        return pipeline

    def fit_quietly(self, rows: IntArray) -> Pipeline:
        with _without_table_warnings():  # the fit to all rows will give them
            return self.fit(rows)

    def judge(self, pipeline: Pipeline, rows: IntArray) -> Evaluation:
        with _without_table_warnings():
            proba = pipeline.predict_proba(self.table.iloc[rows])
        return self.evaluation(proba, rows, pipeline, HELD_OUT)

    def left_out(self, pipeline: Pipeline, rows: IntArray, heldout: Evaluation | None) -> Evaluation:
        """Leave-one-out of all rows; where there is none, held-out rows stand for it."""
        proba = pipeline["model"].loo_proba_
        if proba is not None:
            return self.evaluation(proba, rows, pipeline, LEAVE_ONE_OUT)
        if heldout is not None:
            return heldout
        why = (
            f"leave-one-out probabilities of {len(rows)} rows and {len(pipeline.classes_)} classes are too "
            "many to be kept"
            if np.isfinite(pipeline["model"].loo_score_)
            else "the posterior is too far from what the rows make of it for leave-one-out estimates"
        )
        raise TableError(f"{why}; hold rows out to judge the model, such as holdout=0.2")

    def evaluation(self, proba: Any, rows: IntArray, pipeline: Pipeline, origin: str) -> Evaluation:
        counts = np.asarray(pipeline["columns"].class_counts_)
        return Evaluation(pipeline.classes_, self.labels[rows], proba, rows, origin, counts)


def _judges(pipeline: Pipeline, heldout: Evaluation) -> LeftOut:
    """Rows by which a model that has learned from all of them sets its thresholds.

    All, left out in turn, if it remembers all: that is five times as many as were held out.
    """
    model: BayesianSVC = pipeline["model"]
    return model.left_out() if model.memory_.precision is None else heldout.left_out


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


# --- Rows to hold out: every class in its share, equal rows together.


def equal_rows(table: pd.DataFrame) -> IntArray:
    """A number per row, the same for rows that are equal in every column."""
    codes = np.zeros(len(table), dtype=np.int64)
    for name in table.columns:
        column = pd.factorize(table[name], use_na_sentinel=False)[0]
        codes = np.unique(codes * (int(column.max()) + 1) + column, return_inverse=True)[1]
    return codes


def held_out_rows(labels: npt.NDArray[Any], groups: IntArray, share: float, seed: int) -> IntArray:
    """Positions of the rows to hold out, in order.

    Each class gives its share, rounded so that the total is right; rows of
    one group stay together, and every class keeps at least one row for
    training.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
    groups : ndarray of shape (n_rows,)
    share : float
        Of the rows, between 0 and 1.
    seed : int
    """
    rng = np.random.default_rng(seed)
    _, index, counts = np.unique(labels, return_inverse=True, return_counts=True)
    quota = _rounded(share * counts)
    order = rng.permutation(int(groups.max()) + 1)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    size = np.bincount(groups)
    leader = index[np.unique(groups, return_index=True)[1]]
    held = np.zeros(len(size), dtype=bool)
    taken = np.zeros(len(counts), dtype=np.int64)
    for group in order:
        c = leader[group]
        if taken[c] + size[group] <= quota[c]:
            held[group] = True
            taken[c] += size[group]
    # A group may hold rows of several classes: give back what would leave a class without any.
    for c in range(len(counts)):
        own = np.unique(groups[index == c])
        if held[own].all():
            held[own] = False
    return np.flatnonzero(held[groups])


def _rounded(shares: npt.NDArray[np.floating]) -> IntArray:
    """Whole numbers with the rounded total, the largest remainders rounded up."""
    floor = np.floor(shares).astype(np.int64)
    missing = round(float(shares.sum())) - int(floor.sum())
    up = np.argsort(floor - shares, kind="stable")[:missing]
    floor[up] += 1
    return floor


# --- Warnings about labels and about the split.


# What programs write where there is no value; the rest of the missing words are fair names of classes.
_MARKS = ("na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "?")


def warn_of_labels(labels: npt.NDArray[Any], target: str) -> None:
    """Warn of classes with a single row, and of classes that look like missing labels."""
    classes, counts = np.unique(labels, return_counts=True)
    rare = classes[counts == 1].tolist()
    if rare:
        shown = ", ".join(repr(label) for label in rare[:3]) + (", ..." if len(rare) > 3 else "")
        _warn(f"{len(rare)} class(es) have a single row ({shown}): their accuracy cannot be measured")
    for label, count in zip(classes.tolist(), counts, strict=True):
        if str(label).casefold() in _MARKS:
            _warn(
                f"{count} row(s) of the target {target!r} say {label!r}, which counts as a class; "
                "leave the field empty if there is no label"
            )


def warn_of_split(holdout: float, n_rows: int, judged: Pipeline | None) -> None:
    """Warn of splits that leave too few rows on one side."""
    if holdout > 0 and judged is None:
        _warn(
            f"a share of {holdout:g} of {n_rows} rows leaves none to hold out; the model is judged by "
            "leave-one-out only"
        )
    if judged is not None and 2 * judged["columns"].n_rows_ < n_rows:
        _warn(
            f"the model that is judged learned from {judged['columns'].n_rows_} of {n_rows} rows only, so "
            "the held-out figures are worse than those of the final one; hold out less"
        )


def warn_of_promise(pipeline: Pipeline, max_error: float, holdout: float) -> None:
    """Warn if the held-out rows are too few to guarantee the rate, and say how many rows it takes."""
    problem, needed = cannot_promise(pipeline, max_error), rows_needed(max_error, PROMISED_WITH)
    calibration = calibration_of(pipeline)
    if problem and calibration is not None and len(calibration[0]) < needed:
        problem += f"; at holdout={holdout:g} the table must have some {math.ceil(needed / holdout)} rows"
    if problem:
        warnings.warn(problem, TooFewRowsWarning, stacklevel=3)


def _warn(message: str) -> None:
    warnings.warn(message, TableWarning, stacklevel=4)


# --- Interruption.


@dataclass
class Interrupts:
    """Whether Ctrl-C was pressed inside the block."""

    pressed: bool = False


@contextmanager
def held_interrupts() -> Iterator[Interrupts]:
    """Hold Ctrl-C back until the block ends; the caller checks ``pressed`` afterwards.

    Signals reach the main thread only; in another one nothing needs holding,
    nor where the process ignores Ctrl-C, as jobs in the background do.
    """
    interrupts = Interrupts()
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield interrupts
        return

    def take_note(*_: Any) -> None:
        interrupts.pressed = True

    before = signal.signal(signal.SIGINT, take_note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
