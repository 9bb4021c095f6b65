"""The draws of a fit as plain arrays, and their conversion for ArviZ."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm._core.chains import LARGEST_R_HAT, Chains
from bayesvm._model import to_numpy

# Split R-hat of 60 independent draws of 4 chains is below 1.05 for all of 300
# latents in 17 of 20 trials, of 40 in none, and of 80 in all.
_FEW_DRAWS = 80

FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True, repr=False)
class FittedChains:
    """Draws from the posterior, by chain.

    Attributes
    ----------
    v : ndarray of shape (n_chains, n_draws, n_latents, n_inducing)
        Whitened values of the latent functions at the inducing points.
    f : ndarray of shape (n_chains, n_draws, n_distinct_rows, n_latents)
        Latents of the distinct training rows. With more than two classes and
        a likelihood that sees differences only, they are centred over the
        classes.
    log_likelihood : ndarray of shape (n_chains, n_draws, n_distinct_rows)
        Of each distinct row, for one unit of its weight.
    y : ndarray of shape (n_distinct_rows,)
        Class indices of the distinct rows.
    weight : ndarray of shape (n_distinct_rows,)
    r_hat : float
        Largest split R-hat among the latents and the log-likelihood; 1 where
        the chains agree.
    bulk_sample_size, tail_sample_size : float
        How many independent draws the chains are worth at least, for the
        middle of a distribution and for its tails.
    enough : float
        How many were requested.
    n_steps, thinning : int
        Transitions of each chain altogether, and between kept draws.
    converged : bool
    """

    v: FloatArray
    f: FloatArray
    log_likelihood: FloatArray
    y: npt.NDArray[np.int64]
    weight: FloatArray
    r_hat: float
    bulk_sample_size: float
    tail_sample_size: float
    enough: float
    n_steps: int
    thinning: int
    converged: bool

    @property
    def problem(self) -> str:
        """The warning if the chains have not converged; empty if they have."""
        if self.converged:
            return ""
        start = f"the chains have not converged after {self.n_steps} transitions: "
        if not self.r_hat < LARGEST_R_HAT:
            # In chains this short even independent draws may seem to disagree.
            helps = "n_draws and max_iter" if self.v.shape[1] < _FEW_DRAWS else "max_iter"
            return (
                f"{start}they disagree, with R-hat {self.r_hat:.3f} (below {LARGEST_R_HAT:g} is good). "
                f"Raise {helps}, or use fewer rows or inducing points"
            )
        return (
            f"{start}they agree, but are worth only {self.bulk_sample_size:.0f} independent draws, "
            f"{self.tail_sample_size:.0f} for tails ({self.enough:.0f} are enough). "
            "Raise n_draws and max_iter"
        )

    def __repr__(self) -> str:
        K, S = self.v.shape[:2]
        state = "converged" if self.converged else "not converged"
        return (
            f"<{K} chains of {S} draws, {self.thinning} transitions apart: {state}, R-hat {self.r_hat:.3f}, "
            f"worth {min(self.bulk_sample_size, self.tail_sample_size):.0f} independent draws>"
        )


def fitted_chains(chains: Chains, y: npt.NDArray[np.int64], weight: npt.NDArray[np.floating]) -> FittedChains:
    """Chains as arrays, with the labels and weights of their rows."""
    verdict = chains.verdict
    return FittedChains(
        v=to_numpy(chains.v),
        f=to_numpy(chains.f),
        log_likelihood=to_numpy(chains.log_likelihood),
        y=np.asarray(y),
        weight=np.asarray(weight),
        r_hat=verdict.r_hat,
        bulk_sample_size=verdict.bulk,
        tail_sample_size=verdict.tail,
        enough=verdict.enough,
        n_steps=chains.steps,
        thinning=chains.thinning,
        converged=chains.converged,
    )


# --- Chains for ArviZ.


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
        raise ImportError("to_arviz needs ArviZ: pip install 'bayesvm[arviz]'") from error
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups, coords=coords, dims=dims)
    return arviz.from_dict(**groups, coords=coords, dims=dims)
