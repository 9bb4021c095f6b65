"""Pseudo-likelihoods of the Bayesian SVM, and likelihoods to compare them with."""

from bayesvm.core.likelihoods.augmented import PairTerms, augmented_pair
from bayesvm.core.likelihoods.base import Likelihood, Probabilities, ProperLikelihood, RowTerms, expected
from bayesvm.core.likelihoods.binary_hinge import AugmentedBinaryHinge, BinaryHinge
from bayesvm.core.likelihoods.multiclass_hinge import MulticlassHinge
from bayesvm.core.likelihoods.one_vs_rest import OneVsRest
from bayesvm.core.likelihoods.scale_mixture import DrawnSites, ScaleMixture

__all__ = [
    "AugmentedBinaryHinge",
    "BinaryHinge",
    "DrawnSites",
    "Likelihood",
    "MulticlassHinge",
    "OneVsRest",
    "PairTerms",
    "Probabilities",
    "ProperLikelihood",
    "RowTerms",
    "ScaleMixture",
    "augmented_pair",
    "expected",
]
