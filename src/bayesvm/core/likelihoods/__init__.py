"""Pseudo-likelihoods of the Bayesian SVM."""

from bayesvm.core.likelihoods.augmented import PairTerms, augmented_pair
from bayesvm.core.likelihoods.base import Likelihood, RowTerms, expected
from bayesvm.core.likelihoods.binary_hinge import AugmentedBinaryHinge, BinaryHinge
from bayesvm.core.likelihoods.multiclass_hinge import MulticlassHinge

__all__ = [
    "AugmentedBinaryHinge",
    "BinaryHinge",
    "Likelihood",
    "MulticlassHinge",
    "PairTerms",
    "RowTerms",
    "augmented_pair",
    "expected",
]
