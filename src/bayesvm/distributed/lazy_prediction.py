"""Predictions that are computed with the rest of a Dask graph, block by block."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.distributed.dependencies import cloudpickle, dask
from bayesvm.distributed.inputs import is_frame
from bayesvm.streaming.checks import numbers

__all__ = ["lazily"]

Array = npt.NDArray[Any]


def lazily(predictor: Any, method: str, X: Any, columns: Any) -> Any:
    """What a method of a fitted estimator makes of every block of rows.

    Parameters
    ----------
    predictor : estimator
        Fitted, without names of features; travels to every worker once.
    method : str
        Name of a method that gives one number or label, or one row, for each row.
    X : Dask array or data frame
        Its columns have been checked (``inputs.check_columns``).
    columns : array-like or None
        One name for every column of the result; None if it has one dimension.

    Returns
    -------
    Dask array, or Dask series or data frame with the index of X
        Nothing is computed yet. Data types and shapes are known.
    """
    sent = dask().delayed(pickle.loads, pure=True)(cloudpickle().dumps(predictor))
    block = _Block(method, predictor.classes_, columns)
    if is_frame(X):
        return X.map_partitions(block.of_frame, sent, meta=block.of_frame(X._meta, predictor))
    whole = X.rechunk({1: -1})
    empty = block(np.empty((0, X.shape[1])), predictor)
    shape: dict[str, Any] = {"chunks": (X.chunks[0],), "drop_axis": 1}
    if columns is not None:
        shape = {"chunks": (X.chunks[0], (len(columns),))}
    return whole.map_blocks(block, sent, dtype=empty.dtype, meta=empty, **shape)


class _Block:
    """One method of an estimator on one block; an empty block gives an empty result."""

    def __init__(self, method: str, classes: Array, columns: Any) -> None:
        self.__name__ = method  # shown by Dask's dashboards
        self._classes = classes
        self._columns = columns

    def __call__(self, X: Any, predictor: Any) -> Array:
        if len(X):
            made: Callable[[Any], Array] = getattr(predictor, self.__name__)
            return np.asarray(made(X))
        dtype = self._classes.dtype if self.__name__ == "predict" else np.float64
        return np.empty(0 if self._columns is None else (0, len(self._columns)), dtype=dtype)

    def of_frame(self, X: Any, predictor: Any) -> Any:
        """The same as a series or data frame with the index of X."""
        import pandas as pd

        values = self(numbers(X), predictor)
        if self._columns is not None:
            return pd.DataFrame(values, index=X.index, columns=self._columns)
        # Without rows pandas could not tell strings from other objects.
        dtype = pd.Series(self._classes).dtype if self.__name__ == "predict" else np.float64
        return pd.Series(values, index=X.index, dtype=dtype, name=self.__name__)
