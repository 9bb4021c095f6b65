"""Pseudo-likelihoods of the Bayesian SVM, and likelihoods to compare them with."""

from bayesvm.core.likelihoods.augmented import PairTerms, augmented_pair
from bayesvm.core.likelihoods.base import Likelihood, Probabilities, ProperLikelihood, RowTerms, expected
from bayesvm.core.likelihoods.binary_hinge import AugmentedBinaryHinge, BinaryHinge
from bayesvm.core.likelihoods.crammer_singer_mode import CrammerSingerMode
from bayesvm.core.likelihoods.hinge_mode import HingeMode
from bayesvm.core.likelihoods.multiclass_hinge import MulticlassHinge
from bayesvm.core.likelihoods.one_vs_rest import OneVsRest
from bayesvm.core.likelihoods.point import PointLikelihood, PointTerms
from bayesvm.core.likelihoods.registry import LIKELIHOODS, register_likelihood, resolve_likelihood
from bayesvm.core.likelihoods.robust_max import RobustMax
from bayesvm.core.likelihoods.scale_mixture import DrawnSites, ScaleMixture
from bayesvm.core.likelihoods.softmax import Softmax

__all__ = [
    "LIKELIHOODS",
    "AugmentedBinaryHinge",
    "BinaryHinge",
    "CrammerSingerMode",
    "DrawnSites",
    "HingeMode",
    "Likelihood",
    "MulticlassHinge",
    "OneVsRest",
    "PairTerms",
    "PointLikelihood",
    "PointTerms",
    "Probabilities",
    "ProperLikelihood",
    "RobustMax",
    "RowTerms",
    "Softmax",
    "ScaleMixture",
    "augmented_pair",
    "expected",
    "register_likelihood",
    "resolve_likelihood",
]
