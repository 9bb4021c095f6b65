"""Bayesian SVMs as the last layer of neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm.nn._calibration import Calibration, calibrate
    from bayesvm.nn._head import BayesianSVMHead
    from bayesvm.nn._hybrid import HybridClassifier
    from bayesvm.nn._output import HeadOutput
    from bayesvm.nn._recipe import Epoch, HeadError, Recipe
    from bayesvm.nn._settling import settle
    from bayesvm.nn._training import train

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
    "BayesianSVMHead": "bayesvm.nn._head",
    "Calibration": "bayesvm.nn._calibration",
    "Epoch": "bayesvm.nn._recipe",
    "HeadError": "bayesvm.nn._recipe",
    "HeadOutput": "bayesvm.nn._output",
    "HybridClassifier": "bayesvm.nn._hybrid",
    "Recipe": "bayesvm.nn._recipe",
    "calibrate": "bayesvm.nn._calibration",
    "settle": "bayesvm.nn._settling",
    "train": "bayesvm.nn._training",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
