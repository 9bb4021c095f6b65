"""Fitting any member of the family to rows that come in chunks, few or many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state

from bayesvm import defaults
from bayesvm.estimators.attributes import fitted_attributes, store
from bayesvm.estimators.callbacks import FitReporter
from bayesvm.estimators.fitting import fit_rows
from bayesvm.estimators.named_columns import named_columns
from bayesvm.estimators.options import chosen_inference
from bayesvm.estimators.validation import (
    check_classes_left,
    check_same_model,
    check_some_weight,
    check_two_classes,
    class_factors,
)
from bayesvm.inference.methods import METHODS
from bayesvm.inference.task import Member
from bayesvm.scaling import Scaler
from bayesvm.streaming.chunks import Chunk, Source
from bayesvm.streaming.engine import Engine, LocalEngine
from bayesvm.streaming.fit import in_double, left_out, sampled, surveyed, train_on_chunks
from bayesvm.streaming.passes.gather import gather
from bayesvm.streaming.passes.labels import Labels
from bayesvm.streaming.passes.survey import SurveySums
from bayesvm.streaming.sources import as_source, is_chunked
from bayesvm.summary import MOST_PROBABILITIES
from bayesvm.threads import threads_for
from bayesvm.training import Options, Trained, most_steps, sweep_work

__all__ = ["fit_chunks", "fit_estimator"]

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
