"""What fitting any member of the family to rows in memory has in common: rows in, fitted attributes out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from bayesvm.estimators.attributes import fitted_attributes, store
from bayesvm.estimators.callbacks import FitReporter
from bayesvm.estimators.named_columns import named_columns
from bayesvm.estimators.validation import (
    check_classes_left,
    check_same_model,
    check_share,
    check_weights,
    class_indices,
    masses,
    with_class_weights,
)
from bayesvm.inference.methods import METHODS
from bayesvm.online import GROWTH, Memory, continue_training, worth_learning_anew
from bayesvm.rows import CanonicalRows, canonical_rows
from bayesvm.scaling import Scaler, fit_scaler
from bayesvm.threads import threads_for
from bayesvm.training import Trained, most_steps, sweep_work, train

__all__ = ["can_add_rows", "fit_rows", "partial_fit_estimator"]

FloatArray = npt.NDArray[np.floating]
# Share of rows whose leave-one-out is unreliable above which a user is told.
_CLIPPED_SHARE = 0.05


def fit_rows(e: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit an estimator to rows in memory: validate, train, set its attributes, warn."""
    previous = e.model_ if getattr(e, "warm_start", False) and e.__sklearn_is_fitted__() else None
    known = None if previous is None else e.classes_
    given = _given(e, X, y, sample_weight, None, previous is None)
    data, n_classes = given.data, len(given.classes)
    options = e._options(len(data.y), n_classes, given.seed)
    if previous is not None:
        check_same_model(known, given.classes, previous.kernel, options.kernel)
    scaler = _scaler(e, data) if previous is None else previous.scaler

    def fitted(trained: Trained) -> dict[str, Any]:
        return fitted_attributes(trained, options, scaler, data, given.classes, len(data.y), given.X)

    reporter = FitReporter(e, X, y, sample_weight, most_steps(options), fitted)
    with threads_for(sweep_work(len(data.y), n_classes, options)):
        trained = train(data, scaler, n_classes, options, previous, reporter.progress)
        attributes = fitted(trained)
    store(e, attributes, trained, reporter.stopped)
    reporter.close()


def can_add_rows(e: Any) -> bool:
    """Whether an estimator has ``partial_fit``: it adds rows to a variational posterior.

    Raises
    ------
    AttributeError
        If its inference makes none.
    """
    if e.inference in METHODS and "variational" not in METHODS[e.inference].approximations:
        raise AttributeError(
            f"partial_fit adds rows to a variational posterior, and inference={e.inference!r} makes none; "
            "use inference='coordinate' or 'natural', or fit to all rows"
        )
    return True


def partial_fit_estimator(
    e: Any, X: Any, y: Any, classes: Any, sample_weight: Any, forgetting: float = 0.0
) -> None:
    """Go on from what an estimator remembers."""
    check_share("forgetting", forgetting)
    first = not e.__sklearn_is_fitted__()
    if first and classes is None:
        raise ValueError("classes must be given in the first call of partial_fit: all labels that will occur")
    known = np.unique(np.asarray(classes)) if first else e.classes_
    if not first and classes is not None and not np.array_equal(np.unique(np.asarray(classes)), known):
        raise ValueError(f"classes={classes!r} differ from those of the first call, {known.tolist()!r}")
    X, y, sample_weight = named_columns(X, y, sample_weight)
    memory: Memory | None = None if first else e.memory_.faded(forgetting)
    given = _given(e, X, y, sample_weight, known, first, memory)
    data = given.data
    n_rows, n_classes = len(data.y), len(given.classes)
    options = e._options(n_rows, n_classes, given.seed)
    anew = memory is None or worth_learning_anew(memory, data)
    scaler = _scaler(e, data).with_all_columns() if anew else e.model_.scaler
    learned_from = n_rows if memory is None or anew else memory.learned_from

    def fitted(trained: Trained) -> dict[str, Any]:
        return fitted_attributes(trained, options, scaler, data, given.classes, learned_from, given.X)

    reporter = FitReporter(e, X, y, sample_weight, most_steps(options), fitted)
    with threads_for(sweep_work(n_rows, n_classes, options)):
        if memory is None or anew:
            if np.unique(data.y).size == 1:  # one class says nothing about the kernel
                options = replace(options, hyperparameters="fixed")
            trained = train(data, scaler, n_classes, options, None, reporter.progress)
        else:
            if e.n_inducing == "auto":
                options = replace(options, n_inducing=GROWTH * options.n_inducing)
            trained = continue_training(data, e.model_, memory, options, reporter.progress)
        attributes = fitted(trained)
    store(e, attributes, trained, reporter.stopped)
    reporter.close()


def _scaler(e: Any, data: CanonicalRows) -> Scaler:
    if getattr(e, "standardize", True):
        return fit_scaler(data.X, data.weight)
    return Scaler.identity(data.X.shape[1])


class _Given(NamedTuple):
    """What was given, checked.

    Attributes
    ----------
    data : CanonicalRows
        With remembered rows.
    X : ndarray
        The given rows, as they came.
    classes : ndarray
        Labels in order.
    seed : int
    """

    data: CanonicalRows
    X: FloatArray
    classes: npt.NDArray[Any]
    seed: int


def _given(
    e: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    classes: npt.NDArray[Any] | None,
    reset: bool,
    memory: Memory | None = None,
) -> _Given:
    """Validated input, joined to remembered rows, as canonical rows."""
    e._check()
    X, y = validate_data(e, X, y, dtype=np.float64, reset=reset)
    found, index = class_indices(y, classes)
    weight = check_weights(sample_weight, X.shape[0])
    weight = with_class_weights(e.class_weight, found, index, weight)
    check_classes_left(found, masses(index, weight, len(found)), 2 if classes is None else 1)
    seed = int(check_random_state(e.random_state).randint(np.iinfo(np.int32).max))
    if memory is None:
        return _Given(canonical_rows(X, index, weight, seed), X, found, seed)
    data = canonical_rows(
        np.concatenate([memory.X, X]),
        np.concatenate([memory.y, index]),
        np.concatenate([memory.weight, weight]),
        seed,
    )
    return _Given(replace(data, index=data.index[len(memory.y) :]), X, found, seed)
