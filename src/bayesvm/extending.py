"""What likelihoods, inference methods and rival rules of your own are written with (docs/extending.md).

Kernels of your own need :mod:`bayesvm.kernels` alone.
"""

from bayesvm._compiled.kernels import PROFILES, DistanceTerm
from bayesvm._core import gaussian
from bayesvm._core.elbo import elbo
from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._core.grouping import ClassGroups
from bayesvm._core.likelihoods import (
    Likelihood,
    Probabilities,
    ProperLikelihood,
    RowTerms,
    expected,
    pair_bound,
    register_likelihood,
)
from bayesvm._core.sites import Statistics
from bayesvm._inference.blocks import Block, TrainingRows
from bayesvm._inference.methods import register_inference
from bayesvm._inference.rivals import MIN_VARIANCE, BlockSites, OneRival, RowSites, register_rivals
from bayesvm._inference.task import Ascent, Method, Outcome, Task, evaluate, needs_positive_sites
from bayesvm._progress import Progress, Step

__all__ = [
    "MIN_VARIANCE",
    "PROFILES",
    "Ascent",
    "Block",
    "BlockSites",
    "ClassGroups",
    "DistanceTerm",
    "Gaussian",
    "Likelihood",
    "Method",
    "Natural",
    "OneRival",
    "Outcome",
    "Probabilities",
    "Progress",
    "ProperLikelihood",
    "RowSites",
    "RowTerms",
    "Statistics",
    "Step",
    "Task",
    "TrainingRows",
    "elbo",
    "evaluate",
    "expected",
    "gaussian",
    "needs_positive_sites",
    "pair_bound",
    "register_inference",
    "register_likelihood",
    "register_rivals",
]
