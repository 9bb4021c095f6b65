"""What every user relies on: consistent predictions, invariances, attributes, parameters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from bayesvm import BayesianSVC, _prediction

from .data import FAST, assert_sound, problem, three_blobs


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("hyperparameters", ["fixed", "blend"])
def test_default_model_is_sound(n_classes, hyperparameters):
    X, y = problem(n_classes)
    model = BayesianSVC(hyperparameters=hyperparameters, random_state=0).fit(X, y)
    assert_sound(model, X)
    assert_sound(model, X + 10.0)
    assert model.score(X, y) > 0.85  # smoke


@pytest.mark.parametrize("n_classes", [2, 3])
def test_decision_function_is_log_proba_or_log_odds(n_classes):
    X, y = problem(n_classes)
    model = BayesianSVC(**FAST).fit(X, y)
    log_p = np.log(model.predict_proba(X))
    expected = log_p[:, 1] - log_p[:, 0] if n_classes == 2 else log_p
    assert_allclose(model.decision_function(X), expected)
    assert_allclose(model.predict_log_proba(X), log_p)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_do_not_depend_on_their_batch(n_classes):
    X, y = problem(n_classes, 90)
    model = BayesianSVC(**FAST).fit(X, y)
    one_by_one = np.vstack([model.predict_proba(row[None]) for row in X])
    assert_allclose(one_by_one, model.predict_proba(X), atol=1e-12)
    halves = np.concatenate([model.variation_ratio(X[:7]), model.variation_ratio(X[7:])])
    assert_allclose(halves, model.variation_ratio(X), atol=1e-12)


def test_blocks_of_prediction_do_not_matter(monkeypatch):
    X, y = three_blobs()
    model = BayesianSVC(**FAST).fit(X, y)
    whole = model.predict_proba(X)
    monkeypatch.setattr("bayesvm._prediction._BLOCK_NUMBERS", 1)
    assert_allclose(model.predict_proba(X), whole, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-11), ("float32", 1e-4)])
def test_predictions_of_many_rows_are_those_of_few(n_classes, dtype, tolerance):
    """Variances of many rows come from products with inverse factors instead of solves."""
    X, y = problem(n_classes)
    model = BayesianSVC(20, dtype=dtype, local=False, **FAST).fit(X, y)
    many = np.random.default_rng(0).normal(size=(_prediction._ROWS_FOR_ROOTS + 7, X.shape[1]))
    few = np.concatenate([model.predict_proba(part) for part in np.array_split(many, 5)])
    assert_allclose(model.predict_proba(many), few, rtol=0, atol=tolerance)
    mean, std = model.predict_latent(many)
    few_mean, few_std = model.predict_latent(many[:50])
    assert_allclose(mean[:50], few_mean, rtol=0, atol=tolerance)
    assert_allclose(std[:50], few_std, rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("factor", [1e6, 1e-6, 3.0])
def test_units_of_a_column_do_not_matter(n_classes, factor):
    X, y = problem(n_classes, 80)
    units = np.ones(X.shape[1])
    units[1] = factor
    plain = BayesianSVC(n_inducing=20, random_state=0).fit(X, y)
    scaled = BayesianSVC(n_inducing=20, random_state=0).fit(X * units, y)
    assert_allclose(scaled.predict_proba(X * units), plain.predict_proba(X), atol=1e-8)
    assert_allclose(scaled.loo_proba_, plain.loo_proba_, atol=1e-8)
    assert_allclose(scaled.inducing_points_ / units, plain.inducing_points_, atol=1e-8)


@pytest.mark.parametrize(
    "names", [np.array([-5, 0, 7]), np.array(["ant", "bee", "cow"]), np.array(["a", "bb", "c"], dtype=object)]
)
def test_names_of_classes_do_not_matter(names):
    X, y = three_blobs()
    plain = BayesianSVC(**FAST).fit(X, y)
    named = BayesianSVC(**FAST).fit(X, names[y])
    assert_array_equal(named.classes_, names)
    assert_array_equal(named.predict_proba(X), plain.predict_proba(X))
    assert_array_equal(named.predict(X), names[plain.predict(X)])


def test_boolean_labels():
    X, y = problem(2)
    model = BayesianSVC(**FAST).fit(X, y.astype(bool))
    assert model.predict(X).dtype == bool


@pytest.mark.parametrize("rivals", ["exact", "sampled", "mean"])
def test_same_seed_same_result(rivals):
    X, y = three_blobs(90)
    first, second, other = (
        BayesianSVC(n_inducing=15, rivals=rivals, random_state=seed).fit(X, y) for seed in (1, 1, 2)
    )
    assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert_array_equal(first.loo_proba_, second.loo_proba_)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))
    assert np.abs(first.predict_proba(X) - other.predict_proba(X)).max() < 0.3  # smoke


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fitted_attributes(n_classes):
    X, y = problem(n_classes, 60)
    N, D = X.shape
    model = BayesianSVC(n_inducing=16, random_state=0).fit(X, y)
    assert model.classes_.tolist() == list(range(n_classes))
    assert model.inducing_points_.shape == (16, D)
    assert model.loo_proba_.shape == (N, n_classes)
    assert_allclose(model.loo_proba_.sum(1), 1.0)
    assert model.loo_score_ == pytest.approx((model.loo_proba_.argmax(1) == y).mean())
    assert model.loo_log_loss_ == pytest.approx(-np.log(model.loo_proba_[np.arange(N), y]).mean())
    assert model.feature_relevance_.shape == (D,)
    assert model.feature_relevance_.sum() == pytest.approx(1.0)
    assert (model.feature_relevance_ >= 0).all()
    assert model.temperature_ > 0
    assert model.n_features_in_ == D
    assert not hasattr(model, "feature_names_in_")
    assert model.n_iter_ >= 1
    assert model.elbo_curve_.ndim == model.kernel_curve_.ndim == 1
    assert model.sites_.precision.shape == model.sites_.linear.shape
    assert model.sites_.index.shape == (N,)
    assert (model.sites_.precision >= 0).all()
    K = model.kernel_(X)
    assert K.shape == (N, N)
    assert_allclose(K, K.T, atol=1e-10)
    assert np.linalg.eigvalsh(K).min() > -1e-8
    assert_allclose(model.kernel_(X[:3], X[:5]), K[:3, :5])


def test_bound_rises_with_exact_rivals():
    X, y = three_blobs()
    curve = BayesianSVC(rivals="exact", **FAST).fit(X, y).elbo_curve_
    assert len(curve) > 2
    assert (np.diff(curve) > -1e-6 * np.abs(curve[:-1])).all()


def test_relevance_finds_the_feature_that_matters():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    model = BayesianSVC(random_state=0).fit(X, X[:, 2] > 0)
    assert model.feature_relevance_.argmax() == 2
    assert model.feature_relevance_[2] > 0.5


def test_clone_and_parameters():
    model = BayesianSVC(30, kernel="rbf", tol=0.5, class_weight={0: 2.0})
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(n_inducing=7, kernel="linear").n_inducing == 7
    assert model.n_inducing == 30
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(n_inducers=3)


def test_refit_forgets_the_last_fit():
    X, y = three_blobs()
    X2, y2 = problem(2)
    fresh = BayesianSVC(**FAST).fit(X2, y2)
    again = BayesianSVC(**FAST).fit(X, y).fit(X2, y2)
    assert_array_equal(again.predict_proba(X2), fresh.predict_proba(X2))
    assert again.n_features_in_ == 2


def test_fit_changes_neither_data_nor_parameters():
    X, y = three_blobs()
    X_before, w = X.copy(), np.linspace(0, 2, len(y))
    w_before = w.copy()
    model = BayesianSVC(random_state=0)
    before = model.get_params()
    model.fit(X, y, sample_weight=w)
    assert_array_equal(X, X_before)
    assert_array_equal(w, w_before)
    assert model.get_params() == before
