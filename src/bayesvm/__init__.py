"""Classification that knows what it does not know: Bayesian support vector machines.

The names below and the modules ``active``, ``adversarial``, ``distributed``, ``extending``,
``kernels``, ``metrics``, ``nn``, ``plotting``, ``report`` and ``tables`` are the public interface.
Modules and attributes that begin with an underscore may change without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_package
from bayesvm._version import __version__ as __version__

if TYPE_CHECKING:
    from bayesvm._chains import to_arviz as to_arviz
    from bayesvm._compiled.predictor import CompiledPredictor as CompiledPredictor
    from bayesvm._fit.rows import RepeatedRowsWarning as RepeatedRowsWarning
    from bayesvm._judgement import LeftOut as LeftOut
    from bayesvm._judgement import NothingLearnedWarning as NothingLearnedWarning
    from bayesvm._judgement import TooFewRowsWarning as TooFewRowsWarning
    from bayesvm._linear import LinearBayesianSVC as LinearBayesianSVC
    from bayesvm._persistence import load as load
    from bayesvm._persistence import save as save
    from bayesvm._prediction import Uncertainty as Uncertainty
    from bayesvm._svc import BayesianSVC as BayesianSVC
    from bayesvm._svc import BinaryBayesianSVC as BinaryBayesianSVC
    from bayesvm._svc import OneVsRestBayesianSVC as OneVsRestBayesianSVC
    from bayesvm._svgp import SVGPClassifier as SVGPClassifier
else:
    __all__, __getattr__, __dir__ = lazy_package(
        __name__,
        {
            "_chains": ["to_arviz"],
            "_compiled.predictor": ["CompiledPredictor"],
            "_fit.rows": ["RepeatedRowsWarning"],
            "_judgement": ["LeftOut", "NothingLearnedWarning", "TooFewRowsWarning"],
            "_linear": ["LinearBayesianSVC"],
            "_persistence": ["load", "save"],
            "_prediction": ["Uncertainty"],
            "_svc": ["BayesianSVC", "BinaryBayesianSVC", "OneVsRestBayesianSVC"],
            "_svgp": ["SVGPClassifier"],
            "_version": ["__version__"],
        },
    )
