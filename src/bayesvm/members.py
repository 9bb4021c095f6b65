"""The members of the family: which likelihood, and how its sites come about."""

from __future__ import annotations

from bayesvm.core.likelihoods import (
    AugmentedBinaryHinge,
    BinaryHinge,
    CrammerSingerMode,
    HingeMode,
    Likelihood,
    MulticlassHinge,
    OneVsRest,
    PointLikelihood,
    ProperLikelihood,
    resolve_likelihood,
)
from bayesvm.inference.rivals import AllRivals, OneRival
from bayesvm.inference.task import Member

__all__ = ["binary", "crammer_singer", "one_vs_rest", "own_probabilities", "svgp", "with_likelihood"]


def crammer_singer(n_classes: int, rivals: str, seed: int, single: bool = False) -> Member:
    """Wistuba and Rawat (2018); two classes are one function of their difference (eq. 7.1).

    With sampled rivals the kernel is still learned against all of them.
    ``single`` is that of the rules.
    """
    if n_classes == 2:
        site: Likelihood = BinaryHinge() if rivals == "exact" else AugmentedBinaryHinge()
        likelihood = AugmentedBinaryHinge() if rivals == "mean" else BinaryHinge()
        return Member(likelihood, AllRivals(site, single), HingeMode())
    exact = MulticlassHinge()
    rule = AllRivals(exact, single) if rivals == "exact" else OneRival(rivals == "sampled", seed, single)
    return Member(exact, rule, CrammerSingerMode())


def binary(expectation: str, single: bool = False) -> Member:
    """Wenzel et al. (2017): "augmented" is theirs, "exact" the expectation it bounds (eqs. 2.3, 4.3)."""
    return with_likelihood(_binary(expectation), HingeMode(), single)


def one_vs_rest(expectation: str, single: bool = False) -> Member:
    """A binary model for every class, all in one computation (eq. 8.1)."""
    return with_likelihood(OneVsRest(_binary(expectation)), HingeMode(), single)


def svgp(likelihood: str | Likelihood, n_classes: int) -> Member:
    """Hensman et al. (2015): any likelihood, by name or as an object, in exact expectation (section 8).

    Raises
    ------
    ValueError
        If it describes fewer classes than there are.
    """
    found = resolve_likelihood(likelihood)
    if n_classes > 2 and found.n_latents(n_classes) == 1:
        name = repr(likelihood) if isinstance(likelihood, str) else type(found).__name__
        raise ValueError(
            f"likelihood={name} has one latent function for two classes, and y holds {n_classes}"
        )
    return with_likelihood(found)


def own_probabilities(member: Member) -> ProperLikelihood | None:
    """The likelihood, if it is a distribution over classes."""
    return member.likelihood if isinstance(member.likelihood, ProperLikelihood) else None


def with_likelihood(
    likelihood: Likelihood, mode: PointLikelihood | None = None, single: bool = False
) -> Member:
    """Any likelihood in exact expectation, and at points if its mode is known."""
    return Member(likelihood, AllRivals(likelihood, single), mode)


def _binary(expectation: str) -> Likelihood:
    return BinaryHinge() if expectation == "exact" else AugmentedBinaryHinge()
