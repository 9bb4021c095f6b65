"""From rows to fitted attributes, for all of ``fit`` and ``partial_fit``: arrays, chunks and clusters."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from bayesvm import _prediction
from bayesvm._callbacks import FitReporter
from bayesvm._chains import fitted_chains
from bayesvm._compiled.columns import ColumnEncoder
from bayesvm._core.kernels.nominal import on_blocks
from bayesvm._fit import defaults
from bayesvm._fit.columns import BlockScaler, checked_rows, has_gaps, nominal_columns, takes_categories
from bayesvm._fit.engine import Chunk, Engine, KeptEngine, LocalEngine, Source, gathered, joined
from bayesvm._fit.leave_one_out import MOST_PROBABILITIES, summarise
from bayesvm._fit.local import fit_local
from bayesvm._fit.options import chosen_inference
from bayesvm._fit.partial_fit import GROWTH, Memory, continue_training, remember, worth_learning_anew
from bayesvm._fit.passes import Encoding, Sample, SampleSums, Survey, SurveySums, masses
from bayesvm._fit.rows import CanonicalRows, RepeatedRowsWarning, Scaler, beyond_chance
from bayesvm._fit.sources import as_source, is_chunked
from bayesvm._fit.streamed import in_double, left_out, train_on_chunks
from bayesvm._fit.train import Options, Trained, as_model, most_steps, train
from bayesvm._fit.validation import (
    check_classes_left,
    check_groups,
    check_same_model,
    check_share,
    check_some_weight,
    check_two_classes,
    check_weights,
    class_factors,
    drawn_seed,
    named_columns,
)
from bayesvm._inference.methods import METHODS
from bayesvm._inference.task import Member, Sites
from bayesvm._model import Model, SiteArrays, to_numpy
from bayesvm._progress import Progress
from bayesvm._threads import one_thread

# --- The fitted attributes of an estimator, and warnings for its user.


FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]
# Share of rows with unreliable leave-one-out from which on there is a warning.
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
    complete: bool,
) -> dict[str, Any]:
    """The fitted attributes that a training, finished or not, results in.

    Parameters
    ----------
    trained, options, scaler, data, classes : the training and what it was given
    learned_from : int
        Rows that the kernel was learned from.
    X : ndarray or None
        The given rows, as they came, where they are in memory.
    complete : bool
        Whether ``data`` are all distinct rows; otherwise leave-one-out is of a sample.
    """
    ascent = trained.ascent
    mean_decides = options.mean_decides
    # Draws and modes have no sites to go on from, and others did not quite come from theirs.
    from_sites = ascent.chains is None and not METHODS[options.inference].mean_decides
    may_be_local = options.local and from_sites and complete
    local = fit_local(trained.rows, ascent, trained.n_members) if may_be_local else None
    summary = summarise(trained, mean_decides, options.class_likelihood, local)
    model = as_model(trained, scaler, summary.calibration, mean_decides, options.class_likelihood, local)
    return {
        "classes_": classes,
        "model_": model,
        "memory_": remember(trained, data, model, learned_from),
        **{f"loo_{name}_": column for name, column in summary.rows._asdict().items()},
        "loo_score_": summary.score,
        "loo_log_loss_": summary.log_loss,
        "loo_gain_": tuple(summary.gain),
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
        "_folds": None,
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
    """Set the fitted attributes and warn of what a user should know."""
    for name, value in attributes.items():
        setattr(e, name, value)

    def warn(message: str, category: type[Warning]) -> None:
        warnings.warn(message, category, stacklevel=levels_to_caller())

    if e.loo_clipped_ > _CLIPPED_SHARE:
        rows = f"{e.loo_clipped_:.0%} of the rows"
        why = (
            f"{rows} nearly determine the model on their own"
            if e.chains_ is None
            else f"the draws are too few for the model without one row, for {rows}"
        )
        warn(f"{why}; their leave-one-out probabilities, and the calibration, are unreliable", UserWarning)
    if not trained.ascent.loo_valid:
        warn(
            "training ended far from the optimum for this kernel, so leave-one-out is not available, and "
            "abstain hands every row to a person; raise max_iter, or change learning_rate",
            UserWarning,
        )
    if e.interrupted_:
        warn("the fit was interrupted; the model holds the best state reached so far", ConvergenceWarning)
    elif e.chains_ is not None and not stopped:
        if e.chains_.problem:
            warn(e.chains_.problem, ConvergenceWarning)
    elif not e.converged_ and e.tol > 0 and not stopped:
        warn(f"the fit did not converge in {e.n_iter_} sweeps; raise max_iter or tol", ConvergenceWarning)


def levels_to_caller() -> int:
    """Stack levels from the function that asks up to the code that called the estimator."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        frame, levels = frame.f_back, levels + 1
    return levels


# --- Fitting.


# Of a GPU's free memory, what prepared rows may take.
_GPU_SHARE = 0.4
# Rows, and numbers in them, that it is sent at once.
_GPU_ROWS = 2**20
_GPU_NUMBERS = 2**25
# Rows of a sample: for the kernel, the inducing points, the calibration and the first sweeps.
_FEWEST_SAMPLED = 8192
_MOST_SAMPLED = 65_536
_ROWS_PER_POINT = 32


class Given(NamedTuple):
    """The arguments of ``fit``, for callbacks; an array of any size can be fitted as a whole."""

    X: Any = None
    y: Any = None
    sample_weight: Any = None
    is_array: bool = False
    groups: IntArray | None = None
    encoder: ColumnEncoder | None = None


_NOTHING = Given()


@dataclass(frozen=True)
class _Rows:
    """The rows of a fit after the first two passes.

    Attributes
    ----------
    engine : Engine
        Over all rows.
    encoding : Encoding
    sample : SampleSums
        All distinct rows, or a sample of them.
    n_used : int
        Rows of positive weight.
    chunk : Chunk or None
        All rows as they were given, where they are in memory.
    """

    engine: Engine[Chunk]
    encoding: Encoding
    sample: SampleSums
    n_used: int
    chunk: Chunk | None = None

    @property
    def complete(self) -> bool:
        """Whether the sample holds all distinct rows: a million rows may hold a dozen."""
        return len(self.sample.rows.y) < self.sample.size

    @property
    def n_rows(self) -> int:
        """Rows that q is fitted to: the distinct ones where all of them are in memory."""
        return len(self.sample.rows.y) if self.complete else self.n_used

    @property
    def n_classes(self) -> int:
        return len(self.encoding.classes)

    @property
    def data(self) -> CanonicalRows:
        """The sample; where rows are in memory it knows where each given one is."""
        if self.chunk is None:
            return self.sample.rows
        used = self.encoding.used(self.chunk)
        index = np.full(used.size, -1, dtype=np.int64)
        index[used] = self.sample.rows.index
        return replace(self.sample.rows, index=index)

    def told_from_copies(self) -> _Rows:
        """The same, with the decision whether equal rows are copies of one."""
        distinct = self.sample.rows
        distinct = replace(distinct, copied=distinct.group is None and beyond_chance(distinct))
        return replace(self, sample=replace(self.sample, rows=distinct))

    def scaler(self, e: Any, encoder: ColumnEncoder | None) -> Scaler:
        """The scale of the columns for an estimator."""
        if not getattr(e, "standardize", True):
            return Scaler.identity(self.engine.n_features)
        scaler = self.sample.moments.scaler(self.encoding.extent)
        if getattr(e, "normal_scores", False):
            scaler = scaler.towards_normal_scores(self.sample.rows)
        if encoder is None or not encoder.sizes:
            return scaler
        return BlockScaler.of(scaler, encoder, self.sample.rows)


def fit_estimator(e: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
    """Fit an estimator to rows in any of the forms that ``fit`` accepts."""
    e._check()
    few = not is_chunked(X, y) and _n_rows(X) <= defaults.IN_MEMORY_ROWS
    if groups is not None and not few:
        raise ValueError(f"groups takes an array or data frame of at most {defaults.IN_MEMORY_ROWS} rows")
    if is_chunked(X, y):
        fit_chunks(e, _engine(as_source(X, y, sample_weight), str(e.device)), Given(X, y, sample_weight))
        return
    X, y, sample_weight = named_columns(X, y, sample_weight)
    given = Given(X, y, sample_weight, True)
    if few or (takes_categories(e) and (len(nominal_columns(X, e.categorical_features)) or has_gaps(X))):
        chunk, encoder = _checked(e, X, y, sample_weight, _warm_start(e) is None)
        given = given._replace(encoder=encoder)
        if groups is not None:
            given = given._replace(groups=check_groups(groups, len(chunk.y)))
        if few:
            fit_chunks(e, _in_memory(e, chunk, encoder), given)
        else:
            fit_chunks(e, _engine(as_source(*chunk), str(e.device)), given)
    else:
        fit_chunks(e, _engine(as_source(X, y, sample_weight), str(e.device)), given)


def fit_chunks(e: Any, engine: Engine[Chunk], given: Given = _NOTHING) -> None:
    """Fit an estimator to the chunks of an engine: few rows in one place, many in passes over them.

    Parameters
    ----------
    e : estimator
        Its fitted attributes are set.
    engine : Engine
    given : the arguments of ``fit``, for callbacks
    """
    e._check()
    if not given.is_array:
        _refuse_declared(e)
    if not engine.in_order and METHODS[chosen_inference(e)[0]].in_order:
        raise ValueError(
            "minibatches (inference='natural', or batch_size with inference='auto') are sequential, and "
            "these rows are read by many workers at once; use inference='coordinate'"
        )
    previous = _warm_start(e)
    known = None if previous is None else e.classes_
    rows = _first_passes(e, engine, given, previous is None)
    options: Options = e._options(rows.n_rows, rows.n_classes, rows.encoding.seed)
    scaler = rows.scaler(e, given.encoder) if previous is None else previous.scaler
    options = _on_blocks(options, scaler)
    if previous is not None:
        check_same_model(known, rows.encoding.classes, previous.kernel, options.kernel)
    if not rows.complete:
        options = replace(options, member=in_double(options.member))

    def run(progress: Progress) -> Trained:
        if rows.complete:
            return train(rows.data, scaler, rows.n_classes, options, previous, progress)
        return train_on_chunks(
            engine, rows.encoding, rows.sample, scaler, rows.n_rows, options, previous, progress
        )

    _complete(e, given, rows, options, scaler, rows.n_rows, run)


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
    """Go on from what an estimator remembers, joined to the new rows."""
    check_share("forgetting", forgetting)
    first = not e.__sklearn_is_fitted__()
    if first and classes is None:
        raise ValueError("classes must be given in the first call of partial_fit: all labels that will occur")
    known = np.unique(np.asarray(classes)) if first else e.classes_
    if not first and classes is not None and not np.array_equal(np.unique(np.asarray(classes)), known):
        raise ValueError(f"classes={classes!r} differ from those of the first call, {known.tolist()!r}")
    X, y, sample_weight = named_columns(X, y, sample_weight)
    e._check()
    chunk, encoder = _checked(e, X, y, sample_weight, first, known)
    memory: Memory | None = None if first else e.memory_.faded(forgetting)
    rows = _with_remembered(e, chunk, memory, known, encoder)
    data, n_classes = rows.data, len(known)
    options = e._options(rows.n_rows, n_classes, rows.encoding.seed)
    if memory is None or worth_learning_anew(memory, data):
        scaler, learned_from = rows.scaler(e, encoder).with_all_columns(), rows.n_rows
        options = _on_blocks(options, scaler)
        if np.unique(data.y).size == 1:  # the kernel cannot be learned from one class
            options = replace(options, hyperparameters="fixed")

        def run(progress: Progress) -> Trained:
            return train(data, scaler, n_classes, options, None, progress)
    else:
        remembered: Memory = memory
        scaler, learned_from = e.model_.scaler, remembered.learned_from
        if e.n_inducing == "auto":
            options = replace(options, n_inducing=GROWTH * options.n_inducing)

        def run(progress: Progress) -> Trained:
            return continue_training(data, e.model_, remembered, options, progress)

    given = Given(X, y, sample_weight, True, encoder=encoder)
    _complete(e, given, rows, options, scaler, learned_from, run, len(chunk.y))


def _complete(
    e: Any,
    given: Given,
    rows: _Rows,
    options: Options,
    scaler: Scaler,
    learned_from: int,
    run: Callable[[Progress], Trained],
    n_given: int | None = None,
) -> None:
    """Train, set the fitted attributes and warn; ``n_given`` rows, the last ones, are not remembered ones."""
    data, X = rows.data, None if rows.chunk is None else rows.chunk.X
    if n_given is not None and X is not None:
        data, X = replace(data, index=data.index[-n_given:]), X[-n_given:]
    classes = rows.encoding.classes

    params = {"_fitted_params": e.get_params(deep=False), "_columns": given.encoder}

    def fitted(trained: Trained) -> dict[str, Any]:
        given = trained, options, scaler, data, classes, learned_from, X, rows.complete
        return fitted_attributes(*given) | params

    reporter = FitReporter(e, given.X, given.y, given.sample_weight, most_steps(options), fitted)
    with one_thread():
        trained = run(reporter.progress)
        attributes = fitted(trained)
        if X is None and given.is_array and _n_rows(given.X) * len(classes) <= MOST_PROBABILITIES:
            attributes["loo_proba_"] = left_out(
                rows.engine, rows.encoding, trained, options, attributes["model_"]
            )
    store(e, attributes, trained, reporter.stopped)
    if data.copied:
        n_rows = int(data.count.sum())
        message = (
            f"{n_rows - len(data.count)} of {n_rows} rows are exact copies of others, more than chance "
            "explains; leave-one-out leaves out all copies of a row together"
        )
        warnings.warn(message, RepeatedRowsWarning, stacklevel=levels_to_caller())
    reporter.close()


def surveyed(engine: Engine[Chunk]) -> SurveySums:
    """The first pass: labels, extents, and whether every row can be used.

    Raises
    ------
    ValueError
        If a row cannot be used; the first such is named.
    """
    found = engine.total(Survey(engine.n_features, engine.feature_names))
    if found.problem is not None:
        raise ValueError(str(found.problem))
    return found


def _first_passes(e: Any, engine: Engine[Chunk], given: Given, reset: bool) -> _Rows:
    """Look at all rows, then draw a sample of them: of few rows, all."""
    survey = surveyed(engine)
    check_some_weight(survey.mass)
    check_two_classes(survey.labels)
    factor = class_factors(e.class_weight, survey.labels, survey.mass)
    check_classes_left(survey.labels, survey.mass * factor, 2)
    encoding = Encoding(survey.labels, factor, survey.extent, drawn_seed(e.random_state))
    if given.encoder is None:
        _set_columns(e, engine, reset)
    if survey.n_rows <= defaults.IN_MEMORY_ROWS:
        return _at_hand(engine, encoding, groups=given.groups)
    options: Options = e._options(survey.n_used, len(survey.labels), encoding.seed)
    if METHODS[options.inference].run_streamed is None:
        if given.is_array:
            return _at_hand(engine, encoding)
        raise ValueError(
            f"inference={e.inference!r} holds all rows in memory, and {survey.n_rows} rows in chunks are "
            f"more than {defaults.IN_MEMORY_ROWS}; {_ways_out(options.member, engine.in_order)}"
        )
    size = _sample_size(survey.n_used, len(survey.labels), options.n_inducing)
    rows = _Rows(engine, encoding, engine.total(Sample(encoding, size)), survey.n_used)
    return rows.told_from_copies() if rows.complete else rows


def _at_hand(
    engine: Engine[Chunk], encoding: Encoding, memory: Memory | None = None, groups: IntArray | None = None
) -> _Rows:
    """All rows in one chunk, and what is distinct among them; the first are those of a memory."""
    whole = gathered(engine)
    (chunk,) = whole.walk()
    sample = whole.total(Sample(encoding, len(chunk.y) + 1))
    if memory is not None:
        known, count = memory.weight > 0, sample.rows.count.copy()
        np.add.at(count, sample.rows.index[: np.count_nonzero(known)], memory.count[known] - 1)
        sample = replace(sample, rows=replace(sample.rows, count=count))
    if groups is not None:
        found, ones = encoding.rows(chunk), np.ones(len(sample.rows.index), dtype=np.int64)
        columns = found.X, found.y, found.weight, ones, found.key
        sample = replace(sample, rows=CanonicalRows.of(*columns, groups[encoding.used(chunk)]))
    return _Rows(whole, encoding, sample, len(chunk.y), chunk).told_from_copies()


def _with_remembered(
    e: Any,
    chunk: Chunk,
    memory: Memory | None,
    classes: npt.NDArray[Any],
    encoder: ColumnEncoder | None,
) -> _Rows:
    """New rows behind the remembered ones, whose weights hold those of the classes already."""
    check_two_classes(classes)
    known = np.isin(chunk.y, classes)
    if not known.all():
        raise ValueError(
            f"y holds the labels {np.unique(chunk.y[~known]).tolist()[:5]}, which are not among the classes "
            f"{classes.tolist()[:10]} given first"
        )
    index = np.searchsorted(classes, chunk.y)
    mass = masses(index, chunk.weight, len(classes))
    factor = class_factors(e.class_weight, classes, mass)
    check_classes_left(classes, mass * factor, 1)
    chunk = chunk._replace(weight=chunk.weight * factor[index])
    if memory is not None:
        chunk = joined([Chunk(memory.X, classes[memory.y], memory.weight), chunk])
    engine = _in_memory(e, chunk, encoder)
    extent, seed = surveyed(engine).extent, drawn_seed(e.random_state)
    return _at_hand(engine, Encoding(classes, np.ones(len(classes)), extent, seed), memory)


def _sample_size(n_rows: int, n_classes: int, n_inducing: int) -> int:
    # The kernel is learned on rows of a few classes where there are many.
    many_classes = n_classes / defaults.LEARNING_CLASSES * defaults.sizes(n_rows).learning_rows
    size = min(_MOST_SAMPLED, max(_FEWEST_SAMPLED, int(many_classes)))
    return max(size, _ROWS_PER_POINT * n_inducing)


def _warm_start(e: Any) -> Model | None:
    return e.model_ if getattr(e, "warm_start", False) and e.__sklearn_is_fitted__() else None


def _checked(
    e: Any, X: Any, y: Any, sample_weight: Any, reset: bool, classes: Any = None
) -> tuple[Chunk, ColumnEncoder | None]:
    """Rows of an array as one chunk; number and names of the columns are noted, or compared."""
    if takes_categories(e):
        return checked_rows(e, X, y, sample_weight, reset, classes)
    X, y = validate_data(e, X, y, dtype=np.float64, reset=reset)
    check_classification_targets(y)
    return Chunk(X, np.asarray(y), check_weights(sample_weight, X.shape[0])), None


def _refuse_declared(e: Any) -> None:
    """Refuse nominal columns where rows come in chunks."""
    declared = getattr(e, "categorical_features", None)
    if declared is not None and not isinstance(declared, str):
        raise ValueError(
            "categorical_features needs the rows in memory, and these come in chunks: give an array or a "
            "data frame (partial_fit takes some rows at a time), or encode the columns first"
        )


def _on_blocks(options: Options, scaler: Scaler) -> Options:
    """The same with a kernel that knows the nominal columns, if there are any."""
    if not isinstance(scaler, BlockScaler):
        return options
    return replace(options, kernel=on_blocks(options.kernel, scaler.blocks))


def _in_memory(e: Any, chunk: Chunk, encoder: ColumnEncoder | None) -> Engine[Chunk]:
    names = None if encoder is not None else getattr(e, "feature_names_in_", None)
    return KeptEngine([chunk], chunk.X.shape[1], None if names is None else tuple(names))


def _ways_out(member: Member, in_order: bool) -> str:
    """What to do where a method does not go through chunks: one that does, or an array."""
    fitting = [
        name
        for name, method in METHODS.items()
        if method.run_streamed and method.missing(member) is None and (in_order or not method.in_order)
    ]
    ways = [f"use inference={fitting[0]!r}" if len(fitting) == 1 else f"use one of {fitting}"] * bool(fitting)
    return ", or ".join(ways + ["give an array"] * in_order) or "fit to fewer rows"


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
