"""What fitting any member of the family to rows in memory has in common: rows in, fitted attributes out."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from bayesvm import _prediction
from bayesvm._callbacks import FitReporter
from bayesvm._chains import fitted_chains
from bayesvm._fit import defaults
from bayesvm._fit.arrow import check_column
from bayesvm._fit.chunks import Chunk, Source
from bayesvm._fit.engine import Engine, LocalEngine
from bayesvm._fit.leave_one_out import MOST_PROBABILITIES, summarise
from bayesvm._fit.local import fit_local
from bayesvm._fit.partial_fit import GROWTH, Memory, continue_training, remember, worth_learning_anew
from bayesvm._fit.passes import Labels, SurveySums, gather
from bayesvm._fit.rows import CanonicalRows, Scaler, canonical_rows, fit_scaler
from bayesvm._fit.sources import as_source, is_chunked
from bayesvm._fit.streamed import in_double, left_out, sampled, surveyed, train_on_chunks
from bayesvm._fit.train import Options, Trained, as_model, most_steps, sweep_work, train
from bayesvm._inference.methods import METHODS
from bayesvm._inference.task import Member, Sites
from bayesvm._model import Model, SiteArrays, to_numpy
from bayesvm._options import chosen_inference
from bayesvm._threads import threads_for
from bayesvm._validation import (
    check_classes_left,
    check_same_model,
    check_share,
    check_some_weight,
    check_two_classes,
    check_weights,
    class_factors,
    class_indices,
    masses,
    with_class_weights,
)

# --- What a training amounts to: the fitted attributes of an estimator, and what a user should be told.


FloatArray = npt.NDArray[np.floating]
# Share of rows whose leave-one-out is unreliable above which a user is told.
_CLIPPED_SHARE = 0.05
_OURS = ("bayesvm", "sklearn")


def fitted_attributes(
    trained: Trained,
    options: Options,
    scaler: Scaler,
    data: CanonicalRows,
    classes: npt.NDArray[Any],
    learned_from: int,
    X: FloatArray | None,
) -> dict[str, Any]:
    """The fitted attributes that a training, finished or not, amounts to.

    Parameters
    ----------
    trained, options, scaler, data, classes : the training and what it was given
    learned_from : int
        Rows that the kernel was learned from.
    X : ndarray or None
        The given rows, as they came; None: ``data`` is a sample of them, and
        leave-one-out speaks of the sample.
    """
    ascent = trained.ascent
    decides = METHODS[options.inference].decides
    # Draws and modes have no sites to go on from.
    from_sites = ascent.chains is None and not decides
    local = fit_local(trained.rows, ascent) if options.local and from_sites and X is not None else None
    summary = summarise(trained, decides, options.own, local)
    model = as_model(trained, scaler, summary.calibration, decides, options.own, local)
    return {
        "classes_": classes,
        "model_": model,
        "memory_": remember(trained, data, model, learned_from),
        "loo_confidence_": summary.confidence,
        "loo_correct_": summary.correct,
        "loo_weight_": summary.weight,
        "loo_score_": summary.score,
        "loo_log_loss_": summary.log_loss,
        "loo_proba_": _of_given_rows(summary.proba, X, data, trained, model),
        "loo_clipped_": summary.clipped,
        "sites_": None if X is None else _site_arrays(ascent.sites, data),
        "elbo_curve_": np.asarray(ascent.curve),
        "kernel_curve_": np.asarray(trained.kernel_curve),
        "n_iter_": max(1, ascent.n_iter),
        "converged_": ascent.converged,
        "duality_gap_": ascent.gap,
        "chains_": None if ascent.chains is None else fitted_chains(ascent.chains, data.y, data.weight),
        "interrupted_": trained.interrupted,
    }


def _of_given_rows(
    proba: FloatArray | None, X: FloatArray | None, data: CanonicalRows, trained: Trained, model: Model
) -> FloatArray | None:
    """Leave-one-out probabilities in the order in which rows were given, if there are those of all rows."""
    if X is None or proba is None or X.shape[0] * proba.shape[1] > MOST_PROBABILITIES:
        return None
    out = np.empty((X.shape[0], proba.shape[1]))
    inside = data.index >= 0
    out[inside] = proba[data.index[inside]]
    if not inside.all():  # rows of weight zero took no part: predict them
        rows = trained.rows
        out[~inside] = _prediction.proba(model.on(str(rows.X.device), rows.X.dtype), X[~inside])
    return out


def _site_arrays(sites: Sites, data: CanonicalRows) -> SiteArrays:
    classes = None if sites.classes is None else to_numpy(sites.classes).astype(np.int64)
    return SiteArrays(classes, to_numpy(sites.W), to_numpy(sites.G), data.index)


def store(e: Any, attributes: dict[str, Any], trained: Trained, stopped: bool) -> None:
    """Set the fitted attributes and say what a user should know."""
    for name, value in attributes.items():
        setattr(e, name, value)

    def warn(message: str, category: type[Warning]) -> None:
        warnings.warn(message, category, stacklevel=_levels_to_caller())

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


def _levels_to_caller() -> int:
    """How far up the stack, seen from a function in here, the code is that called an estimator."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        frame, levels = frame.f_back, levels + 1
    return levels


# --- Labels and weights that are columns of a data frame in memory.


def named_columns(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Rows, labels and weights; those that are named are taken out of a data frame of pandas or polars.

    Raises
    ------
    TypeError
        If a name is given, and X has none.
    ValueError
        If there is no such column, or more than one, or none besides.
    """
    named = {"y": y, "sample_weight": sample_weight}
    named = {role: name for role, name in named.items() if isinstance(name, str)}
    if not named:
        return X, y, sample_weight
    # The columns of a pyarrow table are no names.
    if not hasattr(X, "columns") or hasattr(X, "column_names"):
        role, name = next(iter(named.items()))
        raise TypeError(
            f"{role}={name!r} names a column, and X is no data frame: its type is {type(X).__name__}; give "
            f"{role} as an array"
        )
    names = list(X.columns)
    check_named(named, names)
    features = [name for name in names if name not in named.values()]
    if not features:
        raise ValueError(f"the data have no column besides {list(named.values())}")
    return (
        X[features],
        X[y] if "y" in named else y,
        X[sample_weight] if "sample_weight" in named else sample_weight,
    )


def check_named(named: dict[str, str], names: list[Any]) -> None:
    """Refuse names that are not those of one column each; ``named`` says what they are given for."""
    known = [name for name in names if isinstance(name, str)]
    for role, name in named.items():
        check_column(role, name, known)
    if len(set(names)) < len(names):
        doubled = [name for name in names if names.count(name) > 1]
        raise ValueError(f"the data have more than one column named {doubled[0]!r}; rename or drop one")


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


# --- Fitting any member of the family to rows that come in chunks, few or many.


# Of a GPU's free memory, what prepared rows may take.
_GPU_SHARE = 0.4
# Rows, and numbers in them, that it is sent at once.
_GPU_ROWS = 2**20
_GPU_NUMBERS = 2**25


class _Told(NamedTuple):
    """What ``fit`` was given, as callbacks are told; an array can be fitted as a whole too."""

    X: Any = None
    y: Any = None
    sample_weight: Any = None
    is_array: bool = False


_NOTHING = _Told()


def fit_estimator(e: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit an estimator to whatever holds rows."""
    chunked = is_chunked(X, y)
    if not chunked:
        X, y, sample_weight = named_columns(X, y, sample_weight)
    if not chunked and _n_rows(X) <= defaults.IN_MEMORY_ROWS:
        fit_rows(e, X, y, sample_weight)
        return
    e._check()
    engine = _engine(as_source(X, y, sample_weight), str(e.device))
    fit_chunks(e, engine, _Told(X, y, sample_weight, not chunked))


def fit_chunks(e: Any, engine: Engine[Chunk], told: _Told = _NOTHING) -> None:
    """Fit an estimator to the chunks of an engine: few rows as ever, many in passes over them.

    Parameters
    ----------
    e : estimator
        Its fitted attributes are set.
    engine : Engine
    told : what callbacks are told
    """
    e._check()
    if not engine.in_order and METHODS[chosen_inference(e)[0]].in_order:
        raise ValueError(
            "minibatches (inference='natural', or batch_size with inference='auto') follow one after the "
            "other, and these rows are read by many workers at once; use inference='coordinate'"
        )
    survey = surveyed(engine)
    previous = e.model_ if getattr(e, "warm_start", False) and e.__sklearn_is_fitted__() else None
    if survey.n_rows <= defaults.IN_MEMORY_ROWS:
        _fit_gathered(e, engine, previous is None)
        return
    labels = _labels(e, survey)
    _set_columns(e, engine, previous is None)
    n_classes = len(labels.classes)
    options: Options = e._options(survey.n_used, n_classes, labels.seed)
    if not METHODS[options.inference].streams:
        if not told.is_array:
            raise ValueError(
                f"inference={e.inference!r} holds all rows in memory, and {survey.n_rows} rows in chunks are "
                f"more than {defaults.IN_MEMORY_ROWS}; {_ways_out(options.member, engine.in_order)}"
            )
        fit_rows(e, told.X, told.y, told.sample_weight)
        return
    options = replace(options, member=in_double(options.member))
    if previous is not None:
        check_same_model(e.classes_, labels.classes, previous.kernel, options.kernel)
    sample = sampled(engine, labels, survey.n_used, options.n_inducing)
    scaler = sample.scaler if previous is None else previous.scaler
    if not getattr(e, "standardize", True):
        scaler = Scaler.identity(engine.n_features)

    def fitted(trained: Trained) -> dict[str, Any]:
        return fitted_attributes(trained, options, scaler, sample.data, labels.classes, survey.n_used, None)

    reporter = FitReporter(e, told.X, told.y, told.sample_weight, most_steps(options), fitted)
    with threads_for(sweep_work(survey.n_used, n_classes, options)):
        trained = train_on_chunks(
            engine, labels, sample, scaler, survey.n_used, options, previous, reporter.progress
        )
        attributes = fitted(trained)
        if told.is_array and survey.n_rows * n_classes <= MOST_PROBABILITIES:
            attributes["loo_proba_"] = left_out(engine, labels, trained, options, attributes["model_"])
    store(e, attributes, trained, reporter.stopped)
    reporter.close()


def _ways_out(member: Member, in_order: bool) -> str:
    """What to do where a method does not go through chunks: one that does, or an array."""
    fitting = [
        name
        for name, method in METHODS.items()
        if method.streams and method.missing(member) is None and (in_order or not method.in_order)
    ]
    ways = [f"use inference={fitting[0]!r}" if len(fitting) == 1 else f"use one of {fitting}"] * bool(fitting)
    return ", or ".join(ways + ["give an array"] * in_order) or "fit to fewer rows"


def _labels(e: Any, survey: SurveySums) -> Labels:
    """Classes, their weights and the seed of a fit."""
    classes = survey.labels
    check_some_weight(survey.mass)
    check_two_classes(classes)
    factor = class_factors(e.class_weight, classes, survey.mass)
    check_classes_left(classes, survey.mass * factor, 2)
    seed = int(check_random_state(e.random_state).randint(np.iinfo(np.int32).max))
    return Labels(classes, factor, seed)


def _fit_gathered(e: Any, engine: Engine[Chunk], reset: bool) -> None:
    """All rows in one place and fitted as an array."""
    rows = engine.total(gather).rows()
    if not reset:
        _set_columns(e, engine, False)
        if hasattr(e, "feature_names_in_"):  # the array has none, and they have been compared
            del e.feature_names_in_
    fit_rows(e, rows.X, rows.y, rows.weight)
    _set_columns(e, engine, True)


def _set_columns(e: Any, engine: Engine[Chunk], reset: bool) -> None:
    """Number and names of the columns: noted, or compared with those of the last fit."""
    names = engine.feature_names
    if reset:
        e.n_features_in_ = engine.n_features
        if hasattr(e, "feature_names_in_"):
            del e.feature_names_in_
        if names is not None:
            e.feature_names_in_ = np.asarray(names, dtype=object)
        return
    if engine.n_features != e.n_features_in_:
        raise ValueError(f"X has {engine.n_features} columns, and the last fit had {e.n_features_in_}")
    known = getattr(e, "feature_names_in_", None)
    if names is not None and known is not None and tuple(known) != names:
        raise ValueError(f"the columns of X are {list(names)[:10]}, and the last fit had {list(known)[:10]}")


def _n_rows(X: Any) -> int:
    shape = getattr(X, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    return len(X) if hasattr(X, "__len__") else 0


def _engine(source: Source, device: str) -> LocalEngine:
    """Passes on a device; an accelerator gets large chunks, and keeps what fits into its memory."""
    if not device.startswith("cuda"):
        return LocalEngine(source)
    free, _ = torch.cuda.mem_get_info(device)
    may_keep = max(LocalEngine.may_keep, int(_GPU_SHARE * free))
    return LocalEngine(source, may_keep, min(_GPU_ROWS, _GPU_NUMBERS // max(1, source.n_features)))
