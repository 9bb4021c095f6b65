"""Bayesian SVMs as the last layer of neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_package

if TYPE_CHECKING:
    from bayesvm.nn._calibration import Calibration as Calibration
    from bayesvm.nn._calibration import calibrate as calibrate
    from bayesvm.nn._head import BayesianSVMHead as BayesianSVMHead
    from bayesvm.nn._hybrid import HybridClassifier as HybridClassifier
    from bayesvm.nn._output import HeadOutput as HeadOutput
    from bayesvm.nn._recipe import Epoch as Epoch
    from bayesvm.nn._recipe import HeadError as HeadError
    from bayesvm.nn._recipe import Recipe as Recipe
    from bayesvm.nn._train import settle as settle
    from bayesvm.nn._train import train as train
else:
    __all__, __getattr__, __dir__ = lazy_package(
        __name__,
        {
            "_calibration": ["Calibration", "calibrate"],
            "_head": ["BayesianSVMHead"],
            "_hybrid": ["HybridClassifier"],
            "_output": ["HeadOutput"],
            "_recipe": ["Epoch", "HeadError", "Recipe"],
            "_train": ["settle", "train"],
        },
    )
