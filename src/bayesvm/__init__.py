"""Classification that knows what it does not know: Bayesian support vector machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._version import __version__
from bayesvm.lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm.chains_export import to_arviz
    from bayesvm.compiled.predictor import CompiledPredictor
    from bayesvm.estimators.bayesian_svc import BayesianSVC
    from bayesvm.estimators.binary_svc import BinaryBayesianSVC
    from bayesvm.estimators.linear_svc import LinearBayesianSVC
    from bayesvm.estimators.one_vs_rest_svc import OneVsRestBayesianSVC
    from bayesvm.estimators.svgp_classifier import SVGPClassifier
    from bayesvm.persistence import load, save
    from bayesvm.prediction import Uncertainty

__all__ = [
    "BayesianSVC",
    "BinaryBayesianSVC",
    "CompiledPredictor",
    "LinearBayesianSVC",
    "OneVsRestBayesianSVC",
    "SVGPClassifier",
    "Uncertainty",
    "__version__",
    "load",
    "save",
    "to_arviz",
]

# Public names come from their modules when first asked for, so that
# `bayesvm --help` does not wait for torch.
_HOME = {
    "BayesianSVC": "bayesvm.estimators.bayesian_svc",
    "BinaryBayesianSVC": "bayesvm.estimators.binary_svc",
    "CompiledPredictor": "bayesvm.compiled.predictor",
    "LinearBayesianSVC": "bayesvm.estimators.linear_svc",
    "OneVsRestBayesianSVC": "bayesvm.estimators.one_vs_rest_svc",
    "SVGPClassifier": "bayesvm.estimators.svgp_classifier",
    "Uncertainty": "bayesvm.prediction",
    "load": "bayesvm.persistence",
    "save": "bayesvm.persistence",
    "to_arviz": "bayesvm.chains_export",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
