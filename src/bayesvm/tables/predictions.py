"""Predictions of a table as columns: classes, probabilities and doubts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from bayesvm.estimators.bayesian_svc import BayesianSVC
from bayesvm.tables.blocks import BLOCK_ROWS
from bayesvm.tables.errors import TableError
from bayesvm.tables.odd_values import Notes
from bayesvm.tables.plain_models import as_pipeline, columns_for, table_columns

__all__ = ["predict_blocks", "predict_table"]


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
        Error rate to keep among the answered rows; adds ``ask_a_person``.

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
    pipeline, notes = as_pipeline(pipeline), Notes()
    for block in blocks:
        with notes.held():
            predictions = _predict(pipeline, block, max_error)
        yield predictions
    notes.give()


def _predict(pipeline: Pipeline, table: pd.DataFrame, max_error: float | None) -> pd.DataFrame:
    model = pipeline[-1]
    if table_columns(pipeline) is None:
        # What the steps before a model take is for them to say.
        table = columns_for(pipeline, table, numbers_only=len(pipeline) == 1)
    X = pipeline[:-1].transform(table) if len(pipeline) > 1 else table
    proba = model.predict_proba(X)
    confidence = proba.max(1)
    columns: dict[str, Any] = {"prediction": model.classes_[proba.argmax(1)], "probability": confidence}
    columns |= {f"probability_{label}": proba[:, i] for i, label in enumerate(model.classes_)}
    columns["variation_ratio"] = model.variation_ratio(X)
    columns["epistemic"] = model.uncertainty(X).epistemic
    if max_error is not None:
        columns["ask_a_person"] = np.asarray(confidence < model.abstention_threshold(max_error))
    return pd.DataFrame(columns, index=table.index)
