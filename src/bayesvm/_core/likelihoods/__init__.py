"""Pseudo-likelihoods of the Bayesian SVM, and likelihoods to compare them with."""

from __future__ import annotations

from collections.abc import Callable

from bayesvm._core.likelihoods.base import (
    Committee,
    Likelihood,
    PointLikelihood,
    PointTerms,
    Probabilities,
    ProperLikelihood,
    RowTerms,
    expected,
    members_of,
    with_gradient,
)
from bayesvm._core.likelihoods.hinge import (
    AugmentedBinaryHinge,
    BinaryHinge,
    DrawnSites,
    MulticlassHinge,
    OneVsRest,
    ScaleMixture,
    augmented_hinge,
    pair_bound,
)
from bayesvm._core.likelihoods.modes import CrammerSingerMode, HingeMode
from bayesvm._core.likelihoods.robust_max import RobustMax
from bayesvm._core.likelihoods.softmax import Softmax
from bayesvm._registry import Registry

__all__ = [
    "AugmentedBinaryHinge",
    "BinaryHinge",
    "Committee",
    "CrammerSingerMode",
    "DrawnSites",
    "HingeMode",
    "LIKELIHOODS",
    "Likelihood",
    "MulticlassHinge",
    "OneVsRest",
    "PointLikelihood",
    "PointTerms",
    "Probabilities",
    "ProperLikelihood",
    "RobustMax",
    "RowTerms",
    "ScaleMixture",
    "Softmax",
    "augmented_hinge",
    "expected",
    "members_of",
    "pair_bound",
    "register_likelihood",
    "resolve_likelihood",
    "with_gradient",
]


# --- Likelihoods by name: one line here makes a likelihood available to estimators.


LIKELIHOODS: Registry[Callable[[], Likelihood]] = Registry(
    "likelihood",
    {
        "robustmax": RobustMax,
        "softmax": Softmax,
    },
)


def register_likelihood(name: str, factory: Callable[[], Likelihood]) -> None:
    """Make a likelihood available as ``likelihood=name``."""
    LIKELIHOODS.register(name, factory)


def resolve_likelihood(likelihood: str | Likelihood) -> Likelihood:
    """A likelihood from a name or from an object that is one.

    Raises
    ------
    ValueError
        If there is no likelihood of that name.
    TypeError
        If the object lacks what a likelihood has.
    """
    if isinstance(likelihood, str):
        if likelihood not in LIKELIHOODS:
            raise ValueError(
                f"likelihood={likelihood!r} is not valid; it must be one of {sorted(LIKELIHOODS)} or a "
                "likelihood object"
            )
        return LIKELIHOODS[likelihood]()
    if isinstance(likelihood, Likelihood) and not isinstance(likelihood, type):
        return likelihood
    raise TypeError(
        "likelihood must be a name or an object with shift_invariant, n_latents, row_terms and "
        f"log_likelihood; got {likelihood!r}"
    )
