"""Accuracy, log-loss, calibration and time of untuned classifiers on small PMLB sets.

One stratified split of every set whose file is under 150 kB, classes with one
row dropped. studies/benchmarks/README.md says how to read the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from _common import source_version
from _contest import Contest, run, small_sets
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesvm import BayesianSVC

N_SETS = 52


class TunedSVC(ClassifierMixin, BaseEstimator):
    """RBF SVC on standardised inputs: grid search on at most 2000 rows, then Platt scaling."""

    SEARCH_ROWS = 2000
    FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)

    def fit(self, X: np.ndarray, y: np.ndarray) -> TunedSVC:
        """Choose C and gamma, then fit the calibrated model to all rows."""
        gammas = np.array([0.1, 1.0, 10.0]) / X.shape[1]
        grid = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": gammas}
        search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=self.FOLDS, refit=False)
        some = np.random.default_rng(0).permutation(len(y))[: self.SEARCH_ROWS]
        search.fit(X[some], y[some])
        best = clone(search.estimator).set_params(**search.best_params_)
        # Folds as a list: given as a number, classes with two rows would be refused.
        self.model_ = CalibratedClassifierCV(best, cv=list(self.FOLDS.split(X, y))).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Calibrated class probabilities."""
        return self.model_.predict_proba(X)


MODELS: dict[str, Callable[[], Any]] = {
    "bayesvm": lambda: BayesianSVC(random_state=0),
    "random_forest": lambda: RandomForestClassifier(200, random_state=0),
    "hist_gradient_boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "svc_grid": TunedSVC,
    "logistic_regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
}


def version_of(model: str) -> str:
    """What must be unchanged for an old result to count."""
    return source_version() if model == "bayesvm" else f"scikit-learn {sklearn.__version__}"


def all_small_sets(folder: Path) -> list[str]:
    """Names of the sets under 150 kB; says if there are not as many as there should be."""
    names = small_sets(folder)
    if len(names) != N_SETS:
        print(f"WARNING: {len(names)} sets under 150 kB in {folder}, expected {N_SETS}", file=sys.stderr)
    return names


if __name__ == "__main__":
    sys.exit(
        run(Contest("quality", all_small_sets, 42, version_of), __doc__.splitlines()[0], "quality.jsonl")
    )
