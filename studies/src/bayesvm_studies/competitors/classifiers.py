"""Classifiers of scikit-learn as people use them: behind a scaler, tuned where that is usual, calibrated."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

FloatArray = npt.NDArray[np.floating]
# Folds for CalibratedSVC's temperature, and the inverse temperatures that are tried; one-vs-rest decisions
# of SVC differ by about one a class.
_FOLDS = 5
_SLOPES = np.geomspace(0.1, 30.0, 40)


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

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes."""
        return self.model_.predict_proba(X)


class TunedSVC(ClassifierMixin, BaseEstimator):
    """RBF support vector machine on standardised inputs.

    C from 0.1, 1, 10, 100 and gamma from 0.1, 1, 10 over the number of
    features, by the accuracy of three inner folds on a stratified sample of at
    most ``search_rows`` rows. The final model, with Platt's scaling over three folds,
    sees all rows: fewer would make it look worse than it is.

    Parameters
    ----------
    search_rows : int, default=5000
    n_folds : int, default=3
    random_state : int, default=0
    """

    def __init__(self, search_rows: int = 5000, n_folds: int = 3, random_state: int = 0) -> None:
        self.search_rows = search_rows
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose C and gamma, then fit the calibrated model."""
        X, y = np.asarray(X), np.asarray(y)
        some = self._sample(y)
        folds = StratifiedKFold(self.n_folds, shuffle=True, random_state=self.random_state)
        grid = {
            "svc__C": [0.1, 1.0, 10.0, 100.0],
            "svc__gamma": (np.array([0.1, 1.0, 10.0]) / X.shape[1]).tolist(),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # classes with fewer rows than folds
            search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=folds, refit=False)
            search.fit(X[some], y[some])
            best = clone(search.estimator).set_params(**search.best_params_)
            # Folds as a list: given as a number, classes with two rows would be refused.
            self.model_ = CalibratedClassifierCV(best, cv=list(folds.split(X, y))).fit(X, y)
        self.classes_ = self.model_.classes_
        self.details_ = {"chosen": {name[5:]: value for name, value in search.best_params_.items()}}
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated probabilities of the classes."""
        return self.model_.predict_proba(X)

    def _sample(self, y: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Rows to search on."""
        if len(y) <= self.search_rows:
            return np.arange(len(y))
        _, index, counts = np.unique(y, return_inverse=True, return_counts=True)
        # Rare classes are kept whole: a stratified sample could lose them.
        rare = np.flatnonzero(counts[index] < 10)
        rest = np.flatnonzero(counts[index] >= 10)
        chosen, _ = train_test_split(
            rest, train_size=self.search_rows - len(rare), stratify=y[rest], random_state=self.random_state
        )
        return np.sort(np.concatenate([rare, chosen]))


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
        return softmax(self.slope_ * _decisions(self.model_, np.asarray(X)), axis=1)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])

    def _machine(self) -> Any:
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


def _best_slope(margins: list[FloatArray], labels: list[npt.NDArray[np.intp]]) -> float:
    f, label = np.concatenate(margins), np.concatenate(labels)
    rows = np.arange(len(label))
    likelihoods = [log_softmax(slope * f, axis=1)[rows, label].mean() for slope in _SLOPES]
    return float(_SLOPES[int(np.argmax(likelihoods))])
