"""Classification that knows what it does not know: Bayesian support vector machines."""

from bayesvm._version import __version__
from bayesvm.estimators.bayesian_svc import BayesianSVC
from bayesvm.persistence import load, save
from bayesvm.prediction import Uncertainty

__all__ = ["BayesianSVC", "Uncertainty", "__version__", "load", "save"]
