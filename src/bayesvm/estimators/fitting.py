"""What fitting any member of the family has in common: rows in, fitted attributes out."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from bayesvm import prediction
from bayesvm.estimators.callbacks import FitReporter
from bayesvm.estimators.fitted import SiteArrays
from bayesvm.estimators.validation import (
    check_classes_left,
    check_same_model,
    check_weights,
    class_indices,
    with_class_weights,
)
from bayesvm.fitted_chains import fitted_chains
from bayesvm.inference.methods import METHODS
from bayesvm.local_part import fit_local
from bayesvm.model import to_numpy
from bayesvm.online import GROWTH, Memory, continue_training, remember, worth_learning_anew
from bayesvm.rows import CanonicalRows, canonical_rows
from bayesvm.scaling import Scaler, fit_scaler
from bayesvm.summary import summarise
from bayesvm.threads import threads_for
from bayesvm.training import Options, Trained, as_model, most_steps, sweep_work, train

__all__ = ["can_add_rows", "fit_estimator", "partial_fit_estimator"]

FloatArray = npt.NDArray[np.floating]
# Share of rows whose leave-one-out is unreliable above which a user is told.
_CLIPPED_SHARE = 0.05


def fit_estimator(e: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit an estimator: validate, train, set its attributes, warn."""
    previous = e.model_ if getattr(e, "warm_start", False) and e.__sklearn_is_fitted__() else None
    known = None if previous is None else e.classes_
    given = _given(e, X, y, sample_weight, None, previous is None)
    data, n_classes = given.data, len(given.classes)
    options = e._options(len(data.y), n_classes, given.seed)
    if previous is not None:
        check_same_model(known, given.classes, previous.kernel, options.kernel)
    scaler = _scaler(e, data) if previous is None else previous.scaler

    def fitted(trained: Trained) -> dict[str, Any]:
        return _fitted(trained, options, scaler, given, len(data.y))

    reporter = FitReporter(e, X, y, sample_weight, most_steps(options), fitted)
    with threads_for(sweep_work(len(data.y), n_classes, options)):
        trained = train(data, scaler, n_classes, options, previous, reporter.progress)
        attributes = fitted(trained)
    _store(e, attributes, trained, reporter.stopped)
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


def partial_fit_estimator(e: Any, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
    """Go on from what an estimator remembers."""
    first = not e.__sklearn_is_fitted__()
    if first and classes is None:
        raise ValueError("classes must be given in the first call of partial_fit: all labels that will occur")
    known = np.unique(np.asarray(classes)) if first else e.classes_
    if not first and classes is not None and not np.array_equal(np.unique(np.asarray(classes)), known):
        raise ValueError(f"classes={classes!r} differ from those of the first call, {known.tolist()!r}")
    memory: Memory | None = None if first else e.memory_
    given = _given(e, X, y, sample_weight, known, first, memory)
    data = given.data
    n_rows, n_classes = len(data.y), len(given.classes)
    options = e._options(n_rows, n_classes, given.seed)
    anew = memory is None or worth_learning_anew(memory, data)
    scaler = _scaler(e, data).with_all_columns() if anew else e.model_.scaler
    learned_from = n_rows if memory is None or anew else memory.learned_from

    def fitted(trained: Trained) -> dict[str, Any]:
        return _fitted(trained, options, scaler, given, learned_from)

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
    _store(e, attributes, trained, reporter.stopped)
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
    check_classes_left(found, index, weight, 2 if classes is None else 1)
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


def _fitted(
    trained: Trained, options: Options, scaler: Scaler, given: _Given, learned_from: int
) -> dict[str, Any]:
    """The fitted attributes that a training, finished or not, amounts to."""
    ascent, data, X = trained.ascent, given.data, given.X
    decides = METHODS[options.inference].decides
    # Draws and modes have no sites to go on from.
    from_sites = ascent.chains is None and not decides
    local = fit_local(trained.rows, ascent) if options.local and from_sites else None
    summary = summarise(trained, decides, options.own, local)
    model = as_model(trained, scaler, summary.calibration, decides, options.own, local)
    proba = np.empty((X.shape[0], len(given.classes)))
    inside = data.index >= 0
    proba[inside] = summary.proba[data.index[inside]]
    if not inside.all():  # rows of weight zero took no part: predict them
        proba[~inside] = prediction.proba(
            model.on(str(trained.rows.X.device), trained.rows.X.dtype), X[~inside]
        )
    sites = ascent.sites
    return {
        "classes_": given.classes,
        "model_": model,
        "memory_": remember(trained, data, model, learned_from),
        "loo_confidence_": summary.confidence,
        "loo_correct_": summary.correct,
        "loo_weight_": summary.weight,
        "loo_score_": summary.score,
        "loo_log_loss_": summary.log_loss,
        "loo_proba_": proba,
        "loo_clipped_": summary.clipped,
        "sites_": SiteArrays(
            None if sites.classes is None else to_numpy(sites.classes).astype(np.int64),
            to_numpy(sites.W),
            to_numpy(sites.G),
            data.index,
        ),
        "elbo_curve_": np.asarray(ascent.curve),
        "kernel_curve_": np.asarray(trained.kernel_curve),
        "n_iter_": max(1, ascent.n_iter),
        "converged_": ascent.converged,
        "duality_gap_": ascent.gap,
        "chains_": None if ascent.chains is None else fitted_chains(ascent.chains, data.y, data.weight),
        "interrupted_": trained.interrupted,
    }


def _store(e: Any, attributes: dict[str, Any], trained: Trained, stopped: bool) -> None:
    """Set the fitted attributes and say what a user should know."""
    for name, value in attributes.items():
        setattr(e, name, value)

    def warn(message: str, category: type[Warning]) -> None:
        warnings.warn(message, category, stacklevel=6)

    if e.loo_clipped_ > _CLIPPED_SHARE:
        rows = f"{e.loo_clipped_:.0%} of the rows"
        why = (
            f"{rows} all but determine the model on their own"
            if e.chains_ is None
            else f"the draws say too little about the model without one row, for {rows}"
        )
        warn(f"{why}; their leave-one-out probabilities, and what rests on them, are rough", UserWarning)
    if e.interrupted_:
        warn("the fit was interrupted; the model holds the best state reached so far", ConvergenceWarning)
    elif e.chains_ is not None and not stopped:
        if e.chains_.problem:
            warn(e.chains_.problem, ConvergenceWarning)
    elif not e.converged_ and e.tol > 0 and not stopped:
        warn(f"the fit did not converge in {e.n_iter_} sweeps; raise max_iter or tol", ConvergenceWarning)
