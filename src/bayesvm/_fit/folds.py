"""Cross-validation: predictions of rows by models that were fitted, kernel included, without them."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from bayesvm._fit.partial_fit import Memory
from bayesvm._judgement import LeftOut

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]

FOLDS = 10
# With fewer rows than this for each learned parameter of the kernel leave-one-out may be optimistic.
_ROWS_PER_PARAMETER = 4


def few_rows_per_parameter(e: Any) -> bool:
    """Whether a fitted estimator remembers all rows, and these are few per learned kernel parameter."""
    if not has_all_rows(e) or fitted_params(e).get("hyperparameters") == "fixed":
        return False
    n_parameters = sum(np.size(values) for values in e.model_.params.values())
    return int(e.memory_.count.sum()) < _ROWS_PER_PARAMETER * n_parameters


def fitted_params(e: Any) -> dict[str, Any]:
    """The parameters that an estimator was fitted with; the present ones for files that lack them."""
    params: dict[str, Any] = e.get_params(deep=False) if e._fitted_params is None else e._fitted_params
    return params


def has_all_rows(e: Any) -> bool:
    """Whether a fitted estimator remembers all rows, and does not take long to be fitted to them again."""
    return e.memory_.precision is None and e.chains_ is None


@dataclass(frozen=True)
class Folds:
    """Models fitted without a tenth of the rows each, and their predictions of these.

    Attributes
    ----------
    models : list of estimators, or of a class index where a fold leaves rows of that class only
    n_classes : int
    fold : ndarray of shape (M,)
        Which model has not learned from a row.
    rows : LeftOut
        Of M rows; copies of a row in different folds count as several.
    """

    models: list[Any]
    n_classes: int
    fold: IntArray
    rows: LeftOut

    @classmethod
    def of(cls, e: Any) -> Folds:
        """Fit to all rows but one fold, for each fold, with the parameters of the estimator's last fit."""
        if not has_all_rows(e):
            raise ValueError(
                "folds need all training rows, and this model does not remember them all (at most 2000); use "
                "calibration rows, or leave-one-out"
                if e.chains_ is None
                else "folds would run the chains ten times; use calibration rows, or leave-one-out"
            )
        memory, n_classes = e.memory_, len(e.classes_)
        dealt = deal(memory)
        unit = memory.weight / memory.count
        row, fold = np.nonzero(dealt)
        models: list[Any] = []
        proba = np.empty((len(row), n_classes))
        for k in range(dealt.shape[1]):
            models.append(_without(e, memory, unit * (memory.count - dealt[:, k])))
            here = fold == k
            proba[here] = _predicted(models[k], memory.X[row[here]], n_classes)
        copies = dealt[row, fold]
        one = unit[row] * (copies if memory.together else 1)
        rows = LeftOut.of(proba, memory.y[row], unit[row] * copies, one)
        return cls(models, n_classes, fold, rows)

    def predictions(self, X: FloatArray) -> Iterator[FloatArray]:
        """Class probabilities of new rows by each of the models, shape (N, C)."""
        return (_predicted(model, X, self.n_classes) for model in self.models)


def deal(memory: Memory) -> IntArray:
    """How many copies of each remembered row go to each fold, shape (M, K).

    Stratified by class; groups, and rows that are copies of one another, stay together.
    """
    whole = np.arange(len(memory.y)) if memory.group is None else memory.group
    if memory.together:
        size = np.bincount(whole, memory.count)
        n_folds = min(FOLDS, len(size))
        fold_of, load = np.empty(len(size), dtype=np.int64), np.zeros(n_folds)
        label = np.zeros(len(size), dtype=np.int64) if memory.group is not None else memory.y
        for i in np.lexsort((np.arange(len(size)), -size, label)):
            fold_of[i] = int(load.argmin())
            load[fold_of[i]] += size[i]
        dealt = np.zeros((len(memory.y), n_folds), dtype=np.int64)
        dealt[np.arange(len(memory.y)), fold_of[whole]] = memory.count
        return dealt
    order = np.argsort(memory.y, kind="stable")  # rows are in random order
    count = memory.count[order]
    n_folds = int(min(FOLDS, count.sum()))
    end = np.cumsum(count)
    dealt = np.empty((len(order), n_folds), dtype=np.int64)
    for k in range(n_folds):  # of the places 0, 1, 2, ... those that are k modulo the number of folds
        dealt[order, k] = (end - k + n_folds - 1) // n_folds - (end - count - k + n_folds - 1) // n_folds
    return dealt


def _without(e: Any, memory: Memory, weight: FloatArray) -> Any:
    """A model of the rows of positive weight, or the index of their class if they have only one."""
    kept = weight > 0
    if len(left := np.unique(memory.y[kept])) < 2:
        return int(left[0])
    params = fitted_params(e)
    seed = params["random_state"] if isinstance(params["random_state"], numbers.Integral) else 0
    # The weights of the remembered rows contain those of the classes.
    options = {"warm_start": False, "verbose": 0, "class_weight": None, "random_state": seed}
    options = {name: value for name, value in options.items() if name in params}
    model = clone(e).set_params(**(params | options))
    group = None if memory.group is None else memory.group[kept]
    if group is not None and len(np.unique(group)) < 2:
        group = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(e._encoded(memory.X[kept]), memory.y[kept], sample_weight=weight[kept], groups=group)
    if model.interrupted_:
        raise KeyboardInterrupt
    return model


def _predicted(model: Any, X: FloatArray, n_classes: int) -> FloatArray:
    """Class probabilities, zero for classes without a training row."""
    proba = np.zeros((len(X), n_classes))
    if isinstance(model, int):
        proba[:, model] = 1.0
    else:
        proba[:, model.classes_] = model.predict_proba(model._encoded(X))
    return proba
