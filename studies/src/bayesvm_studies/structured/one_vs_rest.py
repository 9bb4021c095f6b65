"""One-vs-rest as the paper timed it: one binary model per class, one after the other."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

FloatArray = npt.NDArray[np.floating]

# Processes among which the classes are dealt; each is timed by itself all the same.
PROCESSES = "BAYESVM_CLASS_PROCESSES"


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
        self.classes_ = np.unique(y)
        # Two classes need one model only.
        positive = self.classes_ if len(self.classes_) > 2 else self.classes_[1:]
        labels = [y == label for label in positive]
        processes = min(int(os.environ.get(PROCESSES, "1")), len(labels))
        if processes == 1:
            fitted = [_timed_fit(self.arguments, X, label) for label in labels]
        else:
            spawn = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(processes, spawn, _prepare, (self.arguments,)) as pool:
                jobs = [pool.submit(_timed_fit, self.arguments, X, label) for label in labels]
                fitted = [job.result() for job in jobs]
        self.models_ = [model for model, _ in fitted]
        seconds = [time for _, time in fitted]
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


def _timed_fit(arguments: dict[str, Any], X: Any, y: Any) -> tuple[Any, float]:
    from bayesvm import BinaryBayesianSVC

    start = time.perf_counter()
    model = BinaryBayesianSVC(**arguments).fit(X, y)
    return model, time.perf_counter() - start


def _prepare(arguments: dict[str, Any]) -> None:
    """What a process loads at first use is not part of a fit."""
    import torch

    torch.set_num_threads(1)
    short = {**arguments, "max_iter": 2} if "max_iter" in arguments else arguments
    _timed_fit(short, np.arange(40.0)[:, None], np.arange(40) % 2)
