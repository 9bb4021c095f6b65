"""Logistic regression on standardised inputs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


class ScaledLogisticRegression(ClassifierMixin, BaseEstimator):
    """scikit-learn's defaults behind a ``StandardScaler``.

    Parameters
    ----------
    max_iter : int, default=2000
        More than scikit-learn's, so that it converges.
    """

    def __init__(self, max_iter: int = 2000) -> None:
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any) -> Self:
        """Fit."""
        self.model_ = make_pipeline(StandardScaler(), LogisticRegression(max_iter=self.max_iter)).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.floating]:
        """Probabilities of the classes."""
        return self.model_.predict_proba(X)
