"""One-vs-rest as the paper timed it: one binary model per class, one after the other."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

__all__ = ["IndependentOneVsRest"]

FloatArray = npt.NDArray[np.floating]


class IndependentOneVsRest(ClassifierMixin, BaseEstimator):
    """A :class:`bayesvm.BinaryBayesianSVC` for every class, each with its own kernel and inducing points.

    A row goes to the class whose model gives it the highest probability;
    probabilities are divided by their sum.

    Parameters
    ----------
    **arguments
        Of every binary model.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    details_ : dict
        ``class_s``, the seconds of each model; their sum is the time of the fit.
    """

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments

    def fit(self, X: Any, y: Any) -> Self:
        """Fit all of them."""
        from bayesvm import BinaryBayesianSVC

        self.classes_ = np.unique(y)
        # Two classes need one model only.
        positive = self.classes_ if len(self.classes_) > 2 else self.classes_[1:]
        self.models_, seconds = [], []
        for label in positive:
            start = time.perf_counter()
            self.models_.append(BinaryBayesianSVC(**self.arguments).fit(X, y == label))
            seconds.append(time.perf_counter() - start)
        self.fit_seconds_ = float(sum(seconds))
        self.details_ = {"class_s": [round(s, 4) for s in seconds]}
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes."""
        columns = [model.predict_proba(X)[:, 1] for model in self.models_]
        if len(columns) == 1:
            return np.stack([1.0 - columns[0], columns[0]], 1)
        proba = np.maximum(np.stack(columns, 1), np.finfo(np.float64).tiny)
        return proba / proba.sum(1, keepdims=True)
