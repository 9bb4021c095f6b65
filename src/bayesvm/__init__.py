"""Classification that knows what it does not know: Bayesian support vector machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names
from bayesvm._version import __version__

if TYPE_CHECKING:
    from bayesvm._chains import to_arviz
    from bayesvm._compiled.predictor import CompiledPredictor
    from bayesvm._linear import LinearBayesianSVC
    from bayesvm._persistence import load, save
    from bayesvm._prediction import Uncertainty
    from bayesvm._svc import BayesianSVC, BinaryBayesianSVC, OneVsRestBayesianSVC
    from bayesvm._svgp import SVGPClassifier

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
    "BayesianSVC": "bayesvm._svc",
    "BinaryBayesianSVC": "bayesvm._svc",
    "CompiledPredictor": "bayesvm._compiled.predictor",
    "LinearBayesianSVC": "bayesvm._linear",
    "OneVsRestBayesianSVC": "bayesvm._svc",
    "SVGPClassifier": "bayesvm._svgp",
    "Uncertainty": "bayesvm._prediction",
    "load": "bayesvm._persistence",
    "save": "bayesvm._persistence",
    "to_arviz": "bayesvm._chains",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
