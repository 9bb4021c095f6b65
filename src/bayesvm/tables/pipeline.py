"""From columns of any kind to the model: one pipeline, which is also the model file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from bayesvm.estimators.bayesian_svc import BayesianSVC
from bayesvm.tables.columns import TableColumns
from bayesvm.tables.vectoriser import Vectoriser

__all__ = ["table_classifier"]


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
