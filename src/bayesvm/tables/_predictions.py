"""Predictions of a table as columns (classes, probabilities, uncertainty), and which columns matter."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.pipeline import Pipeline

from bayesvm._judgement import LeftOut, TooFewRowsWarning, promised_threshold, too_few_rows
from bayesvm._svc import BayesianSVC
from bayesvm.tables._exceptions import HeldWarnings, TableError
from bayesvm.tables._pipeline import as_pipeline, columns_for, table_columns
from bayesvm.tables._reading import BLOCK_ROWS


def predict_table(
    pipeline: Pipeline | BayesianSVC, table: pd.DataFrame, max_error: float | None = None
) -> pd.DataFrame:
    """Predict every row of a table.

    Parameters
    ----------
    pipeline : Pipeline or BayesianSVC
        Fitted; a pipeline ends in a :class:`bayesvm.BayesianSVC`.
    table : DataFrame
        May have columns that the model does not know, if that knows names.
    max_error : float or None
        Error rate to keep among the answered rows; adds ``ask_a_person``. A
        promise if the model was fitted by :func:`bayesvm.tables.fit_table`
        with ``max_error``, else an aim.

    Returns
    -------
    DataFrame
        With the index of ``table`` and the columns ``prediction``,
        ``probability`` of it, one ``probability_<class>`` each,
        ``variation_ratio``, ``epistemic`` (nats), and with ``max_error``
        ``ask_a_person``.
    """
    if not len(table):
        raise TableError("the table has no rows to predict")
    blocks = (table.iloc[start : start + BLOCK_ROWS] for start in range(0, len(table), BLOCK_ROWS))
    return pd.concat(list(predict_blocks(pipeline, blocks, max_error)))


def predict_blocks(
    pipeline: Pipeline | BayesianSVC, blocks: Iterable[pd.DataFrame], max_error: float | None = None
) -> Iterator[pd.DataFrame]:
    """Predictions of a table that comes in blocks, such as those of :func:`bayesvm.tables.open_blocks`.

    Parameters and columns are those of :func:`predict_table`. What a user
    should know about the values of a column is said once, after the last block.
    """
    pipeline, notes = as_pipeline(pipeline), HeldWarnings()
    problem = "" if max_error is None else cannot_promise(pipeline, max_error)
    if problem:
        warnings.warn(problem, TooFewRowsWarning, stacklevel=2)
    for block in blocks:
        with notes.held():
            predictions = _predict(pipeline, block, max_error)
        yield predictions
    notes.give()


def _predict(pipeline: Pipeline, table: pd.DataFrame, max_error: float | None) -> pd.DataFrame:
    model = pipeline[-1]
    if table_columns(pipeline) is None:
        # Steps before the model check their input themselves.
        table = columns_for(pipeline, table, numbers_only=len(pipeline) == 1)
    X = pipeline[:-1].transform(table) if len(pipeline) > 1 else table
    proba = model.predict_proba(X)
    confidence = proba.max(1)
    columns: dict[str, Any] = {"prediction": model.classes_[proba.argmax(1)], "probability": confidence}
    columns |= {f"probability_{label}": proba[:, i] for i, label in enumerate(model.classes_)}
    columns["variation_ratio"] = model.variation_ratio(X)
    columns["epistemic"] = model.uncertainty(X).epistemic
    if max_error is not None:
        columns["ask_a_person"] = np.asarray(confidence < abstention_threshold(pipeline, max_error))
    return pd.DataFrame(columns, index=table.index)


# Probability, over the draw of the rows it rests on, with which a promised rate is kept.
PROMISED_WITH = 0.9


def abstention_threshold(pipeline: Pipeline, max_error: float) -> float:
    """Confidence below which a row goes to a person (eq. 6.16); infinity: every row.

    Of a model from :func:`bayesvm.tables.fit_table` with ``max_error`` the
    rows held out decide, from which it has not learned: that is exact. Of
    others training rows do, left out, or rows held out from a first fit where
    not all training rows are remembered: that is approximate.
    """
    if not 0.0 < max_error < 1.0:
        raise ValueError(f"max_error={max_error!r} is not valid; it must lie between 0 and 1")
    estimates, rows = _judging(pipeline)
    if too_few_rows(rows.n_rows, max_error, PROMISED_WITH):
        return math.inf
    return promised_threshold(estimates, rows, max_error, PROMISED_WITH)


def cannot_promise(pipeline: Pipeline, max_error: float) -> str:
    """Why no row is answered at this rate; empty if some are."""
    if math.isfinite(abstention_threshold(pipeline, max_error)):
        return ""
    n = _judging(pipeline)[1].n_rows
    return too_few_rows(n, max_error, PROMISED_WITH) or (
        f"max_error={max_error:g} cannot be promised, so no row is answered: of the {n:.0f} rows it would "
        "rest on too many are answered wrongly, even among as many of the surest as a promise takes"
    )


def _judging(pipeline: Pipeline) -> tuple[LeftOut, LeftOut]:
    """Rows whose confidences set the grid of thresholds, and the rows that decide."""
    model, calibration = pipeline[-1], calibration_of(pipeline)
    if calibration is not None:
        return model.left_out("leave-one-out"), calibration
    left = model.left_out()
    return left, left


def calibration_of(pipeline: Pipeline) -> LeftOut | None:
    """Predictions and labels of the held-out rows, if there were any."""
    found = getattr(table_columns(pipeline), "calibration_", None)  # files of earlier versions do not say
    return None if found is None else LeftOut(*found)


# --- Relevance of columns.


# Rows whose answers are watched, and how many answers are asked for in all.
_ROWS = 400
_FEWEST_ROWS = 40
_ANSWERS = 40_000
_SHUFFLES = 2


def column_relevance(pipeline: Pipeline) -> pd.Series:
    """How much the answers change with each column of the user's table; sums to one, largest first.

    A column's values are shuffled among training rows that the model
    remembers, with those of all other columns left in place; what counts is
    how far the class probabilities move on average. Length scales of the
    kernel, which `feature_relevance_` is made of, cannot be added up over
    the many features of a category or a text: short ones count for more than
    they do to the answers.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted, from :func:`bayesvm.tables.table_classifier`.
    """
    model, names = pipeline["model"], pipeline["columns"].names_
    features = _features_of_columns(pipeline)
    n_rows = max(_FEWEST_ROWS, min(_ROWS, _ANSWERS // (_SHUFFLES * len(names))))
    X = model.memory_.X[:n_rows]
    before = model.predict_proba(model._encoded(X))
    rng = np.random.default_rng(0)
    shuffled = [rng.permutation(len(X)) for _ in range(_SHUFFLES)]
    moved = []
    for name in names:
        copies = np.concatenate([X] * _SHUFFLES)
        copies[:, features[name]] = np.concatenate([X[order][:, features[name]] for order in shuffled])
        after = model.predict_proba(model._encoded(copies))
        moved.append(float(np.abs(after - np.concatenate([before] * _SHUFFLES)).sum(1).mean()))
    total = sum(moved) or 1.0
    series = pd.Series(
        dict(zip(names, (m / total for m in moved), strict=True)), name="relevance", dtype=np.float64
    )
    return series.sort_values(ascending=False, kind="stable")


def _features_of_columns(pipeline: Pipeline) -> dict[str, npt.NDArray[np.int64]]:
    """Positions of the numbers that were made from each column."""
    owner, encoder = np.asarray(pipeline["vectoriser"].origins_, dtype=object), pipeline["model"]._columns
    if encoder is not None:
        owner = owner[encoder.owner]
    return {name: np.flatnonzero(owner == name) for name in pipeline["columns"].names_}
