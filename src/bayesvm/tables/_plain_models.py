"""Models that know nothing of tables: estimators and pipelines that were fitted from Python."""

from __future__ import annotations

from typing import Any

import pandas as pd
from sklearn.pipeline import Pipeline

from bayesvm.tables._columns import TableColumns
from bayesvm.tables._kinds import TableError, closest


def as_pipeline(model: Any) -> Pipeline:
    """A model as a pipeline, of one step if it is an estimator by itself."""
    return model if isinstance(model, Pipeline) else Pipeline([("model", model)])


def table_columns(model: Any) -> TableColumns | None:
    """What a model knows of the tables it is for; None if :func:`table_classifier` did not make it."""
    first = as_pipeline(model)[0]
    return first if isinstance(first, TableColumns) else None


def columns_for(model: Any, table: pd.DataFrame, numbers_only: bool) -> pd.DataFrame:
    """The columns of a table that a model was fitted to, in their order.

    Parameters
    ----------
    model : estimator
        One that knows nothing of tables.
    table : DataFrame
    numbers_only : bool
        Refuse columns with other or missing values.

    Raises
    ------
    TableError
        If the table does not have them.
    """
    names, n_features = (getattr(model, name, None) for name in ("feature_names_in_", "n_features_in_"))
    if names is not None:
        for name in names:
            if name not in table:
                raise TableError(
                    f"the table has no column {name!r}, which the model needs{closest(name, table.columns)}"
                )
        table = table[list(names)]
    elif n_features is not None and table.shape[1] != n_features:
        raise TableError(
            f"the model was fitted to {n_features} columns without names, the table has "
            f"{table.shape[1]}; give just those columns, in their order"
        )
    for name in table.columns if numbers_only else ():
        if table[name].dtype.kind not in "biuf" or table[name].isna().any():
            raise TableError(
                "this model was not made by 'bayesvm fit' and takes numbers only; column "
                f"{name!r} has other or missing values"
            )
    if names is not None or n_features is None:
        return table
    return table.set_axis(range(n_features), axis=1)
