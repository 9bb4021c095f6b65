"""The closed-form leave-one-out estimate against refitted models."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from bayesvm import BayesianSVC

from .data import three_blobs, two_moons


@pytest.mark.parametrize("data", [three_blobs, two_moons, lambda n: load_iris(return_X_y=True)])
def test_closed_form_is_close_to_ten_folds(data):
    X, y = data(120)
    model = BayesianSVC(random_state=0).fit(X, y)
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    p = cross_val_predict(BayesianSVC(random_state=0), X, y, cv=folds, method="predict_proba")
    assert model.loo_score_ == pytest.approx((p.argmax(1) == y).mean(), abs=0.04)
    assert model.loo_log_loss_ == pytest.approx(log_loss(y, p), abs=0.08)


@pytest.mark.parametrize("rivals", ["exact", "sampled", "mean"])
def test_closed_form_is_close_to_true_leave_one_out(rivals):
    """At a fixed kernel the probability of each row's own class is close to that of a refit."""
    X, y = three_blobs(45)
    settings = {"hyperparameters": "fixed", "rivals": rivals, "random_state": 0, "tol": 0.02}
    model = BayesianSVC(**settings, kernel="rbf").fit(X, y)
    refitted = []
    for i in range(len(y)):
        weight = np.ones(len(y))
        weight[i] = 0.0
        refit = BayesianSVC(**settings, kernel="rbf").fit(X, y, sample_weight=weight)
        refitted.append(refit.loo_proba_[i])
    p = np.array(refitted)
    assert np.abs(model.loo_proba_ - p).mean() < 0.03
    assert log_loss(y, p) == pytest.approx(model.loo_log_loss_, abs=0.05)
    assert model.loo_log_loss_ > log_loss(y, model.predict_proba(X))
