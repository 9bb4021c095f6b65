"""More rows times classes than leave-one-out keeps; thousands of classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bayesvm import BayesianSVC
from bayesvm._fit import fitting, leave_one_out
from bayesvm.plotting import ReliabilityDisplay

N_CLASSES = 8


def _problem(n_classes: int, per_class: int, n_features: int = 4, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), per_class)
    centres = 3.0 * rng.standard_normal((n_classes, n_features))
    return centres[y] + rng.standard_normal((len(y), n_features)), y


@pytest.fixture
def few_probabilities(monkeypatch):
    """As if 100 rows of 8 classes were too many."""
    for module in (leave_one_out, fitting):
        monkeypatch.setattr(module, "MOST_PROBABILITIES", 100 * N_CLASSES)
    monkeypatch.setattr(leave_one_out, "_FEWEST_JUDGED", 10)
    monkeypatch.setattr(leave_one_out, "_CALIBRATION_ROWS", 100)


def test_the_first_canonical_rows_speak_for_all(few_probabilities, monkeypatch):
    X, y = _problem(N_CLASSES, 40)
    model = BayesianSVC(random_state=0).fit(X, y)
    assert model.loo_proba_ is None
    assert model.loo_confidence_.shape == model.loo_correct_.shape == (100,)
    for module in (leave_one_out, fitting):
        monkeypatch.setattr(module, "MOST_PROBABILITIES", 1000 * N_CLASSES)
    whole = BayesianSVC(random_state=0).fit(X, y)
    assert whole.loo_proba_.shape == (320, N_CLASSES)
    assert_array_equal(model.model_.m, whole.model_.m)
    assert_allclose(model.loo_confidence_, whole.loo_confidence_[:100], rtol=1e-9)
    assert_array_equal(model.loo_correct_, whole.loo_correct_[:100])
    assert model.loo_score_ == pytest.approx(model.loo_correct_.mean())
    assert np.isfinite(model.loo_log_loss_)


def test_what_needs_every_row_says_so(few_probabilities):
    X, y = _problem(N_CLASSES, 40)
    model = BayesianSVC(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="loo_proba_ is None"):
        ReliabilityDisplay.from_leave_one_out(model, y)
    assert model.abstain(X[:5]).shape == (5,)


@pytest.mark.slow
def test_thousands_of_classes_are_told_apart():
    X, y = _problem(2000, 6, n_features=12, seed=1)
    model = BayesianSVC(n_inducing=32, max_iter=30, tol=0.0, random_state=0).fit(X, y)
    top = model.predict_top_k(X[:50], k=5)
    full = model.predict_proba(X[:50])
    of_top = np.take_along_axis(full, top.classes, 1)
    assert (of_top <= top.probabilities + 1e-12).all()
    assert (of_top >= top.probabilities - top.left_out[:, None] - 1e-12).all()
    assert (top.left_out <= 1e-3).all()
    assert_array_equal(model.predict(X[:50]), full.argmax(1))
    assert_allclose(full.sum(1), 1.0)
    rows, labels = X[::37], y[::37]
    centres = X.reshape(2000, 6, -1).mean(1)
    nearest = np.square(rows[:, None] - centres).sum(2).argmin(1)
    assert (model.predict(rows) == labels).mean() > 0.8 * (nearest == labels).mean()
