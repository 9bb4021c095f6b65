"""Data that break naive implementations: duplicates, constants, extremes, many classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from bayesvm import BayesianSVC
from bayesvm.kernels import KERNEL_NAMES

from .data import FAST, assert_sound, problem, three_blobs, two_moons

# Sampled rivals need not settle on a handful of rows; the model must be sound all the same.
unsettled = pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")

SETTINGS = [{}, FAST, {"rivals": "sampled"}, {"dtype": "float32"}]


@unsettled
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_duplicate_and_contradicting_rows(n_classes, settings):
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 12, 0)
    y = np.arange(60) % n_classes
    model = BayesianSVC(**{"random_state": 0, **settings}).fit(X, y)
    assert_sound(model, X)
    assert len(model.inducing_points_) == 5
    assert_allclose(model.predict_proba(X), 1 / n_classes, atol=0.1)  # every row says every class


def test_constant_columns_change_nothing():
    X, y = three_blobs()
    plain = BayesianSVC(**FAST).fit(X, y)
    wide = np.insert(X, [0, 2], [7.0, 1e12], axis=1)
    model = BayesianSVC(**FAST).fit(wide, y)
    assert_allclose(model.predict_proba(wide), plain.predict_proba(X), atol=1e-9)
    assert model.feature_relevance_.shape == (5,)
    assert model.feature_relevance_[[0, 3]].tolist() == [0.0, 0.0]
    assert_array_equal(model.inducing_points_[:, 0], 7.0)


@pytest.mark.parametrize("kernel", [*sorted(KERNEL_NAMES), "0.1*rbf + anova"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_all_columns_constant(n_classes, kernel):
    y = np.r_[np.zeros(30, int), np.arange(30) % n_classes]
    X = np.full((60, 2), 3.0)
    model = BayesianSVC(kernel=kernel, random_state=0).fit(X, y)
    assert_sound(model, X)
    assert (model.predict(X) == 0).all()
    assert_sound(model, X + 1.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fewer_rows_than_inducing_points(n_classes):
    X, y = problem(n_classes, 20)
    model = BayesianSVC(n_inducing=500, random_state=0).fit(X, y)
    assert len(model.inducing_points_) == 20
    assert_sound(model, X)


@unsettled
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_as_few_rows_as_possible(settings):
    for n in (2, 3):
        X = np.arange(2.0 * n).reshape(n, 2)
        model = BayesianSVC(**{"random_state": 0, **settings}).fit(X, np.arange(n))
        assert_sound(model, X)
        assert_array_equal(model.predict(X), np.arange(n))


@unsettled
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_class_with_one_row(settings):
    X, y = three_blobs()
    y = np.r_[y[:-1], 9]
    model = BayesianSVC(**{"random_state": 0, **settings}).fit(X, y)
    assert_sound(model, X)
    assert model.classes_.tolist() == [0, 1, 2, 9]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_separable_data(n_classes, settings):
    X, y = make_blobs(80, centers=n_classes, n_features=2, cluster_std=0.01, random_state=1)
    model = BayesianSVC(**{"random_state": 0, **settings}).fit(X, y)
    assert_sound(model, X)
    assert model.score(X, y) == model.loo_score_ == 1.0
    assert model.temperature_ <= 32.0


@pytest.mark.parametrize("scale", [1e12, 1e-12, 1e100, 1e-100, 1e300, 1e-300])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_extreme_units(n_classes, scale):
    X, y = problem(n_classes)
    plain = BayesianSVC(**FAST).fit(X, y)
    model = BayesianSVC(**FAST).fit(scale * X, y)
    assert_sound(model, scale * X)
    assert_allclose(model.predict_proba(scale * X), plain.predict_proba(X), atol=1e-8)


def test_large_offset():
    X, y = three_blobs()
    model = BayesianSVC(**FAST).fit(X + 1e9, y)
    assert_sound(model, X + 1e9)
    assert model.loo_score_ > 0.85


@pytest.mark.parametrize("kernel", [*sorted(KERNEL_NAMES), "0.1*rbf + anova"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_predictions_far_away(kernel, dtype):
    X, y = three_blobs(40)
    model = BayesianSVC(kernel=kernel, dtype=dtype, **FAST).fit(1e-12 * X, y)
    for distance in (1e6, 1e100, 1e307):
        assert_sound(model, distance * np.array([[1.0, -1.0, 0.3], [0.0, 0.0, 1.0]]))


def test_single_precision_input_and_integers():
    X, y = three_blobs()
    X32 = X.astype(np.float32)
    assert_allclose(
        BayesianSVC(**FAST).fit(X32, y).predict_proba(X32),
        BayesianSVC(**FAST).fit(X32.astype(np.float64), y).predict_proba(X32),
    )
    assert_sound(BayesianSVC(**FAST).fit(np.round(X).astype(int), y), X)
    assert_sound(BayesianSVC(**FAST).fit(X > 0, y), X > 0)


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    X = rng.normal(size=(30, 200)) + 0.7 * y[:, None]
    model = BayesianSVC(random_state=0).fit(X, y)
    assert_sound(model, X)


def test_one_outlier():
    X, y = two_moons()
    model = BayesianSVC(random_state=0).fit(np.vstack([X, [1e12, 1e12]]), np.r_[y, 0])
    assert_sound(model, X)


# Slow; many classes are in test_many_classes.py.
@pytest.mark.slow
def test_a_hundred_classes():
    X, y = make_blobs(300, centers=100, n_features=3, cluster_std=0.1, random_state=0)
    model = BayesianSVC(n_inducing=32, **FAST).fit(X, y)
    assert_sound(model, X[:50])
    assert model.score(X, y) > 0.7


@pytest.mark.slow
@unsettled
def test_a_thousand_classes():
    X, y = make_blobs(3000, centers=1000, n_features=4, cluster_std=0.1, random_state=0)
    model = BayesianSVC(random_state=0).fit(X, y)
    p = model.predict_proba(X[:100])
    assert p.shape == (100, 1000)
    assert_allclose(p.sum(1), 1.0)
    assert np.isfinite(model.loo_proba_).all()
    assert model.loo_score_ > 0.5
