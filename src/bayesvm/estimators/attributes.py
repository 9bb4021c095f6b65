"""What a training amounts to: the fitted attributes of an estimator, and what a user should be told."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from bayesvm import prediction
from bayesvm.estimators.fitted import SiteArrays
from bayesvm.fitted_chains import fitted_chains
from bayesvm.inference.evaluate import Sites
from bayesvm.inference.methods import METHODS
from bayesvm.local_part import fit_local
from bayesvm.model import Model, to_numpy
from bayesvm.online import remember
from bayesvm.rows import CanonicalRows
from bayesvm.scaling import Scaler
from bayesvm.summary import MOST_PROBABILITIES, summarise
from bayesvm.training import Options, Trained, as_model

__all__ = ["fitted_attributes", "store"]

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
        out[~inside] = prediction.proba(model.on(str(rows.X.device), rows.X.dtype), X[~inside])
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
