"""The members of the family: which likelihood, and how its sites come about."""

from __future__ import annotations

from bayesvm.core.likelihoods import (
    AugmentedBinaryHinge,
    BinaryHinge,
    Likelihood,
    MulticlassHinge,
    OneVsRest,
)
from bayesvm.inference.rivals import AllRivals, OneRival
from bayesvm.inference.task import Member

__all__ = ["binary", "crammer_singer", "one_vs_rest", "with_likelihood"]


def crammer_singer(n_classes: int, rivals: str, seed: int) -> Member:
    """Wistuba and Rawat (2018); two classes are one function of their difference (eq. 7.1).

    With sampled rivals the kernel is still learned against all of them.
    """
    if n_classes == 2:
        site: Likelihood = BinaryHinge() if rivals == "exact" else AugmentedBinaryHinge()
        return Member(AugmentedBinaryHinge() if rivals == "mean" else BinaryHinge(), AllRivals(site))
    exact = MulticlassHinge()
    return Member(exact, AllRivals(exact) if rivals == "exact" else OneRival(rivals == "sampled", seed))


def binary(expectation: str) -> Member:
    """Wenzel et al. (2017): "augmented" is theirs, "exact" the expectation it bounds (eqs. 2.3, 4.3)."""
    return with_likelihood(_binary(expectation))


def one_vs_rest(expectation: str) -> Member:
    """A binary model for every class, all in one computation (eq. 8.1)."""
    return with_likelihood(OneVsRest(_binary(expectation)))


def with_likelihood(likelihood: Likelihood) -> Member:
    """Any likelihood in exact expectation."""
    return Member(likelihood, AllRivals(likelihood))


def _binary(expectation: str) -> Likelihood:
    return BinaryHinge() if expectation == "exact" else AugmentedBinaryHinge()
