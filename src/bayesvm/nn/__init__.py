"""Bayesian SVMs as the last layer of neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm.lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm.nn.calibration import Calibration, calibrate
    from bayesvm.nn.errors import HeadError
    from bayesvm.nn.head import BayesianSVMHead
    from bayesvm.nn.hybrid import HybridClassifier
    from bayesvm.nn.output import HeadOutput
    from bayesvm.nn.recipe import Epoch, Recipe
    from bayesvm.nn.settling import settle
    from bayesvm.nn.training import train

__all__ = [
    "BayesianSVMHead",
    "Calibration",
    "Epoch",
    "HeadError",
    "HeadOutput",
    "HybridClassifier",
    "Recipe",
    "calibrate",
    "settle",
    "train",
]

# Names come when they are used: a head needs neither the training loop nor scikit-learn.
_HOME = {
    "BayesianSVMHead": "bayesvm.nn.head",
    "Calibration": "bayesvm.nn.calibration",
    "Epoch": "bayesvm.nn.recipe",
    "HeadError": "bayesvm.nn.errors",
    "HeadOutput": "bayesvm.nn.output",
    "HybridClassifier": "bayesvm.nn.hybrid",
    "Recipe": "bayesvm.nn.recipe",
    "calibrate": "bayesvm.nn.calibration",
    "settle": "bayesvm.nn.settling",
    "train": "bayesvm.nn.training",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
