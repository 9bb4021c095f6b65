"""One-vs-rest of independent models."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_iris

from bayesvm import BinaryBayesianSVC
from bayesvm_studies.structured.one_vs_rest import PROCESSES, IndependentOneVsRest

ARGUMENTS = {"kernel": "rbf", "n_inducing": 8, "max_iter": 5, "random_state": 0}


def _iris():
    X, y = load_iris(return_X_y=True)
    return X[::3], y[::3]


def test_every_class_has_the_binary_model_it_would_have_alone():
    X, y = _iris()
    model = IndependentOneVsRest(**ARGUMENTS).fit(X, y)
    alone = [BinaryBayesianSVC(**ARGUMENTS).fit(X, y == c).predict_proba(X)[:, 1] for c in range(3)]
    expected = np.stack(alone, 1)
    np.testing.assert_allclose(model.predict_proba(X), expected / expected.sum(1, keepdims=True))


def test_processes_change_the_clock_only(monkeypatch):
    X, y = _iris()
    one = IndependentOneVsRest(**ARGUMENTS).fit(X, y)
    monkeypatch.setenv(PROCESSES, "2")
    two = IndependentOneVsRest(**ARGUMENTS).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-9)
    assert len(two.details_["class_s"]) == 3
    assert two.fit_seconds_ > 0
