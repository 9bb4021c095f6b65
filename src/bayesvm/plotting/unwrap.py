"""Finding our model inside pipelines and searches."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

__all__ = ["best_estimator", "final_model", "prepared"]


def best_estimator(estimator: Any) -> Any:
    """The estimator itself, or the refitted best one of a search; fitted."""
    check_is_fitted(estimator)
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    return estimator


def final_model(estimator: Any, *needed: str) -> Any:
    """The last step of a pipeline or search, which must have the attributes named.

    Raises
    ------
    TypeError
        If an attribute is missing.
    """
    model = best_estimator(estimator)
    while isinstance(model, Pipeline):
        model = best_estimator(model[-1])
    for name in needed:
        if not hasattr(model, name):
            raise TypeError(f"{type(model).__name__} has no {name}, which this display shows")
    return model


def prepared(estimator: Any, X: Any) -> Any:
    """X as the last step of a pipeline or search receives it."""
    model = best_estimator(estimator)
    while isinstance(model, Pipeline):
        if len(model.steps) > 1:
            X = model[:-1].transform(X)
        model = best_estimator(model[-1])
    return X
