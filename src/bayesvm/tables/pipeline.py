"""From columns of any kind to the model: one pipeline, which is also the model file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from bayesvm.estimators.bayesian_svc import BayesianSVC
from bayesvm.tables.columns import TableColumns
from bayesvm.tables.vectoriser import Vectoriser

__all__ = ["column_relevance", "table_classifier"]


def table_classifier(target: str, *, ignore: Sequence[str] = (), **model_options: Any) -> Pipeline:
    """An unfitted classifier of the rows of a table.

    Its steps are "columns" (names and kinds), "vectoriser" (one-hot
    categories, text by its character n-grams, parts of dates), "imputer"
    (medians, and whether a value was missing) and "model".

    Parameters
    ----------
    target : str
        Name of the column to predict; it need not be in the table.
    ignore : sequence of str, default=()
        Columns not to use.
    **model_options
        Arguments of :class:`bayesvm.BayesianSVC`.

    Returns
    -------
    Pipeline
    """
    model = BayesianSVC(**{"random_state": 0, **model_options})
    return Pipeline(
        [
            ("columns", TableColumns(target, list(ignore))),
            ("vectoriser", Vectoriser()),
            ("imputer", SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)),
            ("model", model),
        ]
    )


def column_relevance(pipeline: Pipeline) -> pd.Series:
    """How much each column of the user's table matters to the model; sums to one, largest first.

    The relevance of a column is that of all features made from it together.
    """
    origins, imputer = pipeline["vectoriser"].origins_, pipeline["imputer"]
    # The imputer appends a flag for each feature that has gaps.
    flagged = [] if imputer.indicator_ is None else [origins[i] for i in imputer.indicator_.features_]
    totals = dict.fromkeys(pipeline["columns"].names_, 0.0)
    for column, share in zip([*origins, *flagged], pipeline["model"].feature_relevance_, strict=True):
        totals[column] += float(share)
    series = pd.Series(totals, name="relevance", dtype=np.float64)
    return series.sort_values(ascending=False, kind="stable")
