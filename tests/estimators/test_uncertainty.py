"""Draws, variation ratios and entropies agree with each other and with intuition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.datasets import make_blobs

from bayesvm import BayesianSVC

from .data import FAST, problem, three_blobs, two_moons


@pytest.fixture(params=[2, 3], ids=["binary", "three classes"])
def fitted(request):
    X, y = problem(request.param, 60)
    return BayesianSVC(n_inducing=15, **FAST).fit(X, y), X


def test_latent_draws_have_the_predicted_moments(fitted):
    model, X = fitted
    S = 4000
    mean, std = model.predict_latent(X)
    f = model.sample_latent(X, S, random_state=0)
    assert f.shape == (S, *mean.shape)
    assert np.abs((f.mean(0) - mean) / std).max() < 5 / np.sqrt(S)
    assert_allclose(f.std(0), std, rtol=5 / np.sqrt(2 * S))


def test_latent_draws_are_joint_over_rows():
    X, y = two_moons()
    model = BayesianSVC(kernel="linear", **FAST).fit(X, y)
    f = model.sample_latent(np.array([[0.0, 0.0], [1e-6, 0.0]]), 500, random_state=0)
    assert np.corrcoef(f[:, 0, 0], f[:, 1, 0])[0, 1] > 0.99


def test_probability_draws_average_to_the_prediction(fitted):
    model, X = fitted
    draws = model.sample_proba(X, 4000, random_state=0)
    assert_allclose(draws.sum(2), 1.0)
    assert_allclose(draws.mean(0), model.predict_proba(X), atol=0.03)


def test_draws_follow_their_seed(fitted):
    model, X = fitted
    a, b, c = (model.sample_proba(X, 4, random_state=s) for s in (0, 0, 1))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_variation_ratio_exact_against_sampled(fitted):
    model, X = fitted
    S = 4000
    exact = model.variation_ratio(X)
    sampled = model.variation_ratio(X, n_samples=S, random_state=0)
    assert_allclose(sampled, exact, atol=5 * 0.5 / np.sqrt(S))
    assert_allclose(np.exp(model.log_variation_ratio(X)), exact, rtol=1e-3, atol=1e-9)


def test_binary_variation_ratio_in_closed_form():
    X, y = two_moons()
    model = BayesianSVC(committee=False, **FAST).fit(X, y)
    mean, std = model.predict_latent(X)
    z = np.abs(mean[:, 1] - mean[:, 0]) / np.hypot(std[:, 0], std[:, 1])
    assert_allclose(model.variation_ratio(X), norm.sf(z), atol=1e-6)
    assert_allclose(model.log_variation_ratio(X), norm.logsf(z), rtol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_variation_ratio_orders_the_tail(n_classes):
    # Weights make the posterior so sharp that the plain ratio vanishes.
    X, y = make_blobs(80, centers=n_classes, n_features=2, cluster_std=0.3, random_state=3)
    options = {"kernel": "linear", "tol": 0.0, "committee": False, **FAST}
    model = BayesianSVC(**options).fit(X, y, sample_weight=np.full(80, 1000.0))
    ray = np.array([X.mean(0) + r * (X[0] - X.mean(0)) for r in np.linspace(1, 30, 30)])
    ray = ray[model.variation_ratio(ray) == 0]
    assert len(ray) > 10
    log_ratio = model.log_variation_ratio(ray)
    assert len(np.unique(log_ratio)) == len(ray)
    # Another class must win at least its duel with the favourite.
    mean, std = model.predict_latent(ray)
    best = mean.argmax(1)
    rows = np.arange(len(ray))
    z = (mean[rows, best, None] - mean) / np.hypot(std[rows, best, None], std)
    duels = norm.logsf(z)
    duels[rows, best] = -np.inf
    bound = np.logaddexp.reduce(duels, axis=1)
    assert (log_ratio <= bound + 1e-6).all()
    if n_classes == 2:
        assert_allclose(log_ratio, bound, rtol=1e-6)
    else:
        assert_array_equal(np.argsort(log_ratio), np.argsort(bound))


def test_entropies_add_up(fitted):
    model, X = fitted
    total, aleatoric, epistemic = model.uncertainty(X)
    assert_allclose(total, aleatoric + epistemic)
    assert (aleatoric >= 0).all()
    assert (epistemic >= 0).all()
    p = model.predict_proba(X)
    assert_allclose(total, -(p * np.log(p)).sum(1), rtol=1e-6)
    draws = model.sample_proba(X, 3000, random_state=0)
    expected = -(draws * np.log(np.maximum(draws, 1e-300))).sum(2).mean(0)
    assert_allclose(aleatoric, expected, atol=0.03)


def test_epistemic_uncertainty_grows_away_from_the_data():
    X, y = three_blobs()
    model = BayesianSVC(kernel="rbf", **FAST).fit(X, y)
    centre, direction = X.mean(0), np.array([1.0, -1.0, 0.5]) * X.std(0)
    rays = np.array([centre + r * direction for r in (20.0, 200.0)])
    near = model.uncertainty(X).epistemic.mean()
    far = model.uncertainty(rays).epistemic
    assert (far > 2 * near).all()
    assert_allclose(far[0], far[1], rtol=1e-6)  # the prior
    std = model.predict_latent(rays)[1]
    prior_std = np.sqrt(np.diag(model.kernel_(rays)))
    assert_allclose(std, np.repeat(prior_std[:, None], 3, 1), rtol=1e-6)


@pytest.mark.parametrize("n_samples", [0, -1, 2.5, "many"])
def test_number_of_draws_is_checked(fitted, n_samples):
    model, X = fitted
    with pytest.raises(ValueError, match=r"n_samples=.*whole number >= 1"):
        model.sample_proba(X, n_samples)
    with pytest.raises(ValueError, match="n_samples="):
        model.variation_ratio(X, n_samples=n_samples)
