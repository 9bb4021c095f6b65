"""The closed-form leave-one-out estimate against refitted models."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from bayesvm import BayesianSVC, RepeatedRowsWarning

from .data import three_blobs, two_moons


@pytest.mark.parametrize("data", [three_blobs, two_moons, lambda n: load_iris(return_X_y=True)])
def test_closed_form_is_close_to_ten_folds(data):
    X, y = data(120)
    model = BayesianSVC(random_state=0).fit(X, y)
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    p = cross_val_predict(BayesianSVC(random_state=0), X, y, cv=folds, method="predict_proba")
    assert model.loo_score_ == pytest.approx((p.argmax(1) == y).mean(), abs=0.04)
    assert model.loo_log_loss_ == pytest.approx(log_loss(y, p), abs=0.08)


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    return X, (X[:, 0] + rng.normal(size=500) > 0).astype(int) + (X[:, 1] + 2 * rng.normal(size=500) > 2)


@pytest.mark.parametrize("weight", [1.0, 1.5, 2.0, 40.0])
def test_weights_do_not_answer_for_the_row_that_is_left_out(noisy, weight):
    """A weight of all rows makes the model surer, and leave-one-out no better than new rows are."""
    X, y = (a[:350] for a in noisy)
    settings = {"hyperparameters": "fixed", "n_inducing": 16, "random_state": 0}
    model = BayesianSVC(**settings).fit(X, y, np.full(len(y), weight))
    assert model.local_part_ is None
    proba = model.predict_proba(noisy[0][350:])
    assert abs(model.loo_score_ - np.mean(proba.argmax(1) == noisy[1][350:])) < 0.1
    assert model.loo_log_loss_ > 0.75 * log_loss(noisy[1][350:], proba)


def test_weights_of_classes_are_no_copies(noisy):
    X, y = (a[:350] for a in noisy)
    y = (y > 0).astype(int)
    settings = {"hyperparameters": "fixed", "n_inducing": 16, "random_state": 0}
    for class_weight in ("balanced", {0: 2, 1: 5}):
        model = BayesianSVC(class_weight=class_weight, **settings).fit(X, y)
        assert model.local_part_ is None
        assert model.loo_score_ < 0.85


def test_all_rows_twice_is_weight_two(noisy):
    X, y = (a[:200] for a in noisy)
    settings = {"hyperparameters": "fixed", "n_inducing": 16, "random_state": 0}
    with pytest.warns(RepeatedRowsWarning, match="200 of 400 rows are exact copies"):
        twice = BayesianSVC(**settings).fit(np.repeat(X, 2, 0), np.repeat(y, 2))
    weighted = BayesianSVC(**settings).fit(X, y, np.full(200, 2.0))
    assert np.array_equal(twice.loo_proba_[::2], weighted.loo_proba_)
    assert twice.loo_log_loss_ == weighted.loo_log_loss_


def test_rows_drawn_with_replacement_do_not_answer_for_each_other(noisy):
    X, y = (a[:350] for a in noisy)
    rows = np.random.default_rng(1).integers(0, 350, 350)
    settings = {"hyperparameters": "fixed", "n_inducing": 16, "random_state": 0}
    with pytest.warns(RepeatedRowsWarning):
        model = BayesianSVC(**settings).fit(X[rows], y[rows])
    assert model.local_part_ is None
    assert model.loo_log_loss_ > 0.75 * log_loss(noisy[1][350:], model.predict_proba(noisy[0][350:]))


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


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0, 1e6])
def test_noise_of_any_weight_is_not_believed(size):
    """A row of any weight is one row to all that leave-one-out learns."""
    rng = np.random.default_rng(1)
    X, y, weight = rng.normal(size=(1200, 20)), rng.integers(7, size=1200), rng.exponential(size=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianSVC(random_state=0).fit(X[:200], y[:200], sample_weight=size * weight)
    proba = model.predict_proba(X[200:])
    assert log_loss(y[200:], proba) < np.log(7) + 0.15
    assert proba.max(1).mean() < 0.35
