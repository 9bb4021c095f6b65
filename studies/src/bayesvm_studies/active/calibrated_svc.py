"""A support vector machine whose probabilities are calibrated, from one row per class on."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

FloatArray = npt.NDArray[np.floating]
_FOLDS = 5
# Inverse temperatures that are tried; one-vs-rest decisions of SVC differ by about one a class.
_SLOPES = np.geomspace(0.1, 30.0, 40)


class CalibratedSVC(ClassifierMixin, BaseEstimator):
    """Standardisation, an RBF SVC, and the softmax of its decisions at a temperature.

    The temperature minimises the log-loss of out-of-fold decisions. Platt's
    method per class, scikit-learn's usual one, needs several rows of every
    class, which an active learner does not have.

    Parameters
    ----------
    C : float
    random_state : int or None
        Of the folds.
    """

    def __init__(self, C: float = 1.0, random_state: int | None = None) -> None:
        self.C, self.random_state = C, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows of at least two classes."""
        from sklearn.model_selection import KFold

        X, y = np.asarray(X), np.asarray(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"rows of {len(self.classes_)} class; give at least two")
        self.model_ = self._machine().fit(X, y)
        margins, labels = [], []
        n_folds = min(_FOLDS, len(y))
        for train, test in KFold(n_folds, shuffle=True, random_state=self.random_state).split(X):
            there = np.unique(y[train])
            # A row whose class is not among the others' says nothing about the temperature.
            test = test[np.isin(y[test], there)]
            if len(there) > 1 and len(test):
                found = _decisions(self._machine().fit(X[train], y[train]), X[test])
                margins.append(_spread(found, there, self.classes_))
                labels.append(np.searchsorted(self.classes_, y[test]))
        self.slope_ = _best_slope(margins, labels) if margins else 1.0
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities."""
        return _softmax(self.slope_ * _decisions(self.model_, np.asarray(X)))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])

    def _machine(self) -> Any:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        return make_pipeline(StandardScaler(), SVC(C=self.C))


def _decisions(machine: Any, X: FloatArray) -> FloatArray:
    """A decision per class; two classes share one."""
    found = np.asarray(machine.decision_function(X))
    return np.stack([-found, found], 1) if found.ndim == 1 else found


def _spread(decisions: FloatArray, there: npt.NDArray[Any], classes: npt.NDArray[Any]) -> FloatArray:
    """Columns of all classes; one that a fold did not see cannot win there."""
    out = np.full((len(decisions), len(classes)), -np.inf)
    out[:, np.searchsorted(classes, there)] = decisions
    return out


def _softmax(f: FloatArray) -> FloatArray:
    p = np.exp(f - f.max(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True))


def _best_slope(margins: list[FloatArray], labels: list[npt.NDArray[np.intp]]) -> float:
    f, label = np.concatenate(margins), np.concatenate(labels)
    rows = np.arange(len(label))
    own = f[rows, label]
    # -log softmax of the label, for every slope at once
    lead = f - own[:, None]
    losses = [np.log(np.exp(np.minimum(slope * lead, 700.0)).sum(1)).mean() for slope in _SLOPES]
    return float(_SLOPES[int(np.argmin(losses))])
