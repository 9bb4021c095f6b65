"""Chains for ArviZ, which is where people look at chains."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.fitted_chains import FittedChains

__all__ = ["to_arviz"]

# Names of samplers, for estimators that do not have all of them.
_SAMPLERS = {"BayesianSVC": "'slice'", "SVGPClassifier": "'slice'", "LinearBayesianSVC": "'gibbs'"}


def to_arviz(estimator: Any) -> Any:
    """The draws of a sampled estimator for ArviZ: ``InferenceData``, or a ``DataTree`` from ArviZ 1.0 on.

    Groups: ``posterior`` with the latents ``f`` of the distinct training rows
    and the whitened inducing values ``v``; ``log_likelihood`` of every row,
    for one unit of its weight; ``sample_stats`` with the weighted log-likelihood
    ``log_likelihood`` of all rows; ``observed_data`` with the labels' indices and the
    weights. With more than two classes and a likelihood that sees differences
    only, ``f`` and ``v`` are centred over the classes: their sum is zero in every draw.

    Parameters
    ----------
    estimator : estimator
        Fitted with ``inference="slice"`` or ``"gibbs"``, or a pipeline that ends in one.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree

    Raises
    ------
    ImportError
        If ArviZ is not installed.
    ValueError
        If the estimator has no chains.
    """
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    chains = getattr(last, "chains_", None)
    if not isinstance(chains, FittedChains):
        name = type(last).__name__
        samplers = _SAMPLERS.get(name, "'slice' or 'gibbs'")
        raise ValueError(f"{name} has no chains; fit it with inference={samplers}")
    f = np.asarray(chains.f, dtype=np.float64)
    groups: dict[str, dict[str, Any]] = {
        "posterior": {"f": f, "v": chains.v},
        "log_likelihood": {"y": np.asarray(chains.log_likelihood, dtype=np.float64)},
        "sample_stats": {"log_likelihood": chains.log_likelihood @ chains.weight},
        "observed_data": {"y": chains.y, "weight": chains.weight},
    }
    rows = np.arange(f.shape[2])
    coords: dict[str, npt.NDArray[Any]] = {
        "row": rows,
        "function": _functions(last.classes_, f.shape[3]),
        "inducing_point": np.arange(chains.v.shape[3]),
    }
    dims = {"f": ["row", "function"], "v": ["function", "inducing_point"], "y": ["row"], "weight": ["row"]}
    return _from_dict(groups, coords, dims)


def _functions(classes: npt.NDArray[Any], n_latents: int) -> npt.NDArray[Any]:
    """Names of the latent functions: the classes, or for two classes that of the difference."""
    if n_latents == len(classes):
        return np.asarray([str(label) for label in classes])
    return np.asarray([f"{classes[1]} - {classes[0]}"])


def _from_dict(
    groups: dict[str, dict[str, Any]], coords: dict[str, npt.NDArray[Any]], dims: dict[str, list[str]]
) -> Any:
    """ArviZ before 1.0 takes groups as keywords; since then they are one dictionary."""
    try:
        arviz: Any = import_module("arviz")
    except ImportError as error:
        raise ImportError("looking at chains needs ArviZ: pip install 'bayesvm[arviz]'") from error
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups, coords=coords, dims=dims)
    return arviz.from_dict(**groups, coords=coords, dims=dims)
