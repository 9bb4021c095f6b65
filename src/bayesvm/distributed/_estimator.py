"""``BayesianSVC`` on Dask arrays and data frames."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bayesvm._callbacks import with_callbacks
from bayesvm._fit.engine import Chunk, gather, label_kind
from bayesvm._fit.fitting import can_add_rows, fit_chunks
from bayesvm._fit.validation import as_numbers
from bayesvm._svc import BayesianSVC
from bayesvm.distributed._engine import DaskEngine, held
from bayesvm.distributed._inputs import as_groups, check_columns, cloudpickle, dask, is_dask, is_frame

# --- Predictions that are computed with the rest of a Dask graph, block by block.


Array = npt.NDArray[Any]


def lazily(predictor: Any, method: str, X: Any, columns: Any) -> Any:
    """Apply a method of a fitted estimator lazily to every block of rows.

    Parameters
    ----------
    predictor : estimator
        Fitted, without names of features; travels to every worker once.
    method : str
        Name of a method that gives one number or label, or one row, for each row.
    X : Dask array or data frame
        Its columns have been checked (``_inputs.check_columns``).
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

        values = self(as_numbers(X), predictor)
        if self._columns is not None:
            return pd.DataFrame(values, index=X.index, columns=self._columns)
        # Without rows pandas could not tell strings from other objects.
        dtype = pd.Series(self._classes).dtype if self.__name__ == "predict" else np.float64
        return pd.Series(values, index=X.index, dtype=dtype, name=self.__name__)


# --- Accuracy over chunks: one more sum.


@dataclass(frozen=True)
class Hits:
    """Weight of the rows whose label was predicted, and of all."""

    right: float
    all: float

    def plus(self, other: Self) -> Self:
        """The weights of both groups of rows."""
        return type(self)(self.right + other.right, self.all + other.all)

    @property
    def share(self) -> float:
        """The accuracy.

        Raises
        ------
        ValueError
            If no row has weight.
        """
        if not self.all > 0:
            raise ValueError("all sample weights are zero: there is no row to score")
        return self.right / self.all


@dataclass(frozen=True)
class Accuracy:
    """A pass that compares labels with those that a fitted estimator predicts."""

    predictor: Any

    def __call__(self, chunk: Chunk) -> Hits:
        found, known = label_kind(chunk.y), label_kind(self.predictor.classes_)
        if found is not None and found != known:
            raise ValueError(
                f"the labels in y are {found}, and the model was fitted to labels that are {known}"
            )
        hit = self.predictor.predict(chunk.X) == chunk.y
        return Hits(float(chunk.weight @ hit), float(np.sum(chunk.weight)))


class DaskBayesianSVC(BayesianSVC):
    """Multi-class Bayesian support vector machine on Dask arrays and data frames.

    The same model as :class:`bayesvm.BayesianSVC`, fitted where the rows are.
    Every sweep is one sum over blocks of rows: workers get the posterior,
    which is small, and give back sums, which are merged as a tree. How the
    rows are cut into blocks and how many workers there are changes the
    result by rounding only, and so does the loss of a worker. Works
    with the ``distributed.Client`` that is in use, or with Dask's threads and
    processes if there is none. Rows in memory are fitted as ``BayesianSVC``
    does.

    Parameters
    ----------
    **parameters
        Those of :class:`bayesvm.BayesianSVC`. ``device`` is a device of the
        workers, and of this process.

    Attributes
    ----------
    **attributes
        Those of :class:`bayesvm.BayesianSVC`.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm.distributed import DaskBayesianSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    >>> model = DaskBayesianSVC(random_state=0).fit(X, y)
    >>> probabilities = model.predict_proba(X)  # nothing is computed yet
    >>> probabilities.shape, probabilities.chunks[0]
    ((150, 3), (50, 50, 50))
    >>> bool(model.score(X, y) > 0.93)
    True
    """

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_rows, n_features)
            Numbers. On a cluster its blocks are read once and kept by the
            workers during the fit; otherwise they are read in every pass.
        y : Dask array or series of shape (n_rows,), array-like, or str
            Class labels. Blocks correspond to those of X, or can be made to
            because their sizes are known. A string names the column of X.
        sample_weight : likewise, or None
            How much a row matters; weight zero leaves it out.
        groups : array-like or None
            Only where X is in memory, as for :meth:`bayesvm.BayesianSVC.fit`.

        Returns
        -------
        self
        """
        if not is_dask(X):
            return super().fit(X, y, sample_weight, groups)
        if groups is not None:
            raise ValueError("groups needs an array or data frame in memory, and X is a Dask collection")
        fit_chunks(self, _engine(X, y, sample_weight))
        return self

    @available_if(can_add_rows)
    @with_callbacks
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, forgetting: float = 0.0
    ) -> Self:
        """Learn from more rows; the old ones need not be given again.

        As :meth:`bayesvm.BayesianSVC.partial_fit` does. Rows of a Dask array
        or data frame are computed and brought to this process: give as
        many at a time as its memory holds.

        Parameters
        ----------
        X, y, sample_weight : as for ``fit``
        classes : array-like or None
            All labels that will ever occur; needed in the first call only.
        forgetting : float, default=0.0
            Share of what is known that this call forgets, from 0 to 1.

        Returns
        -------
        self
        """
        if is_dask(X):
            if self.__sklearn_is_fitted__():
                check_columns(self, X, y, sample_weight)
            X, y, sample_weight = _at_hand(X, y, sample_weight)
        return super().partial_fit(X, y, classes, sample_weight, forgetting=forgetting)

    def predict(self, X: Any) -> Any:
        """Most probable class of each row.

        Lazy for Dask input, like the other predictions here: a Dask array
        for an array, a Dask series or data frame with the same index for a
        data frame.
        """
        return self._lazily("predict", X, False) if is_dask(X) else super().predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities, one column for each class."""
        return self._lazily("predict_proba", X, True) if is_dask(X) else super().predict_proba(X)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the class probabilities, finite even where those vanish."""
        return self._lazily("predict_log_proba", X, True) if is_dask(X) else super().predict_log_proba(X)

    def decision_function(self, X: Any) -> Any:
        """Log-probabilities, or with two classes the log-odds of the second."""
        if not is_dask(X):
            return super().decision_function(X)
        check_is_fitted(self)
        return self._lazily("decision_function", X, len(self.classes_) > 2)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, computed at once: one pass over the blocks."""
        if not is_dask(X):
            return float(super().score(X, y, sample_weight))
        check_is_fitted(self)
        check_columns(self, X, y, sample_weight)
        return _engine(X, y, sample_weight).total(Accuracy(self._predictor())).share

    def to_local(self) -> BayesianSVC:
        """A fitted ``BayesianSVC`` with the same model, for use and files without Dask."""
        check_is_fitted(self)
        local = BayesianSVC(**self.get_params(deep=False))
        for name, value in vars(self).items():
            setattr(local, name, value)
        return local

    def _lazily(self, method: str, X: Any, for_every_class: bool) -> Any:
        check_is_fitted(self)
        check_columns(self, X)
        return lazily(self._predictor(), method, X, self.classes_ if for_every_class else None)

    def _ready(self, X: Any) -> tuple[Any, npt.NDArray[np.floating]]:
        """All other methods compute the rows of a collection here, and answer at once."""
        if not is_dask(X):
            return super()._ready(X)
        check_is_fitted(self)
        check_columns(self, X)
        (rows,) = dask().compute(X)
        return self._predictor()._ready(as_numbers(rows))

    def _predictor(self) -> BayesianSVC:
        """What predictions need and nothing else: it travels to every worker.

        Names of features have been compared, and blocks come without them.
        """
        predictor = BayesianSVC(**self.get_params(deep=False))
        for name in ("model_", "classes_", "n_features_in_", "_columns"):
            setattr(predictor, name, getattr(self, name))
        return predictor


def _at_hand(X: Any, y: Any, sample_weight: Any) -> Chunk:
    """All rows in this process; those of a data frame have the names of their columns."""
    groups = as_groups(X, y, sample_weight)
    engine = DaskEngine(groups.tasks, groups.n_features, groups.feature_names)
    rows = engine.total(gather).rows()
    if groups.feature_names is None:
        return rows
    import pandas as pd

    return rows._replace(X=pd.DataFrame(rows.X, columns=list(groups.feature_names)))


def _engine(X: Any, y: Any, sample_weight: Any) -> DaskEngine:
    groups = as_groups(X, y, sample_weight)
    return DaskEngine(held(groups.tasks), groups.n_features, groups.feature_names)
