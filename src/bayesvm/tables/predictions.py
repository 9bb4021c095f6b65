"""Predictions of a table as columns: classes, probabilities and doubts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from bayesvm.tables.errors import TableError

__all__ = ["predict_table"]


def predict_table(pipeline: Pipeline, table: pd.DataFrame, max_error: float | None = None) -> pd.DataFrame:
    """Predict every row of a table.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted, ending in a :class:`bayesvm.BayesianSVC`.
    table : DataFrame
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
    model = pipeline[-1]
    X = pipeline[:-1].transform(table) if len(pipeline) > 1 else table
    proba = model.predict_proba(X)
    confidence = proba.max(1)
    columns = {"prediction": model.classes_[proba.argmax(1)], "probability": confidence}
    columns |= {f"probability_{label}": proba[:, i] for i, label in enumerate(model.classes_)}
    columns["variation_ratio"] = model.variation_ratio(X)
    columns["epistemic"] = model.uncertainty(X).epistemic
    if max_error is not None:
        columns["ask_a_person"] = np.asarray(confidence < model.abstention_threshold(max_error))
    return pd.DataFrame(columns, index=table.index)
