"""Which columns of a table a model's answers depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.pipeline import Pipeline

__all__ = ["column_relevance"]

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
    before = model.predict_proba(X)
    rng = np.random.default_rng(0)
    shuffled = [rng.permutation(len(X)) for _ in range(_SHUFFLES)]
    moved = []
    for name in names:
        copies = np.concatenate([X] * _SHUFFLES)
        copies[:, features[name]] = np.concatenate([X[order][:, features[name]] for order in shuffled])
        after = model.predict_proba(copies)
        moved.append(float(np.abs(after - np.concatenate([before] * _SHUFFLES)).sum(1).mean()))
    total = sum(moved) or 1.0
    series = pd.Series(
        dict(zip(names, (m / total for m in moved), strict=True)), name="relevance", dtype=np.float64
    )
    return series.sort_values(ascending=False, kind="stable")


def _features_of_columns(pipeline: Pipeline) -> dict[str, npt.NDArray[np.int64]]:
    """Positions of the features that were made from each column."""
    origins, imputer = pipeline["vectoriser"].origins_, pipeline["imputer"]
    # The imputer appends a flag for each feature that has gaps.
    flagged: list[Any] = (
        [] if imputer.indicator_ is None else [origins[i] for i in imputer.indicator_.features_]
    )
    owner = np.asarray([*origins, *flagged], dtype=object)
    return {name: np.flatnonzero(owner == name) for name in pipeline["columns"].names_}
