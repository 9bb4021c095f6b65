"""Two competitors on tables that want labels of their own kind, on one thread of the processor."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

FloatArray = npt.NDArray[np.floating]


class _OfCodes(ClassifierMixin, BaseEstimator):
    """Labels of any kind become 0, 1, 2 … for the model, which might make strings of them."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.model_ = self._model().fit(np.asarray(X), codes)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes."""
        return np.asarray(self.model_.predict_proba(np.asarray(X)), dtype=np.float64)

    def _model(self) -> Any:
        raise NotImplementedError


class RealMLP(_OfCodes):
    """RealMLP-TD of pytabkit (Holzmüller et al., 2024) with its tuned defaults.

    Parameters
    ----------
    random_state : int, default=0
    """

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def _model(self) -> Any:
        make = import_module("pytabkit").RealMLP_TD_Classifier
        return make(device="cpu", n_threads=1, random_state=self.random_state)


class EBM(_OfCodes):
    """The explainable boosting machine of interpret (Nori et al., 2019), its defaults and its seed."""

    def _model(self) -> Any:
        return import_module("interpret.glassbox").ExplainableBoostingClassifier(n_jobs=1)
