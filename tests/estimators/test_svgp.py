"""The sparse variational Gaussian process classifier."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import bayesvm
from bayesvm import SVGPClassifier, load, save
from bayesvm._core.likelihoods import (
    LIKELIHOODS,
    BinaryHinge,
    MulticlassHinge,
    RobustMax,
    Softmax,
    register_likelihood,
)
from bayesvm.kernels import RBF

from .data import three_blobs, two_moons

NAMES = ["softmax", "robustmax"]


@pytest.mark.parametrize("likelihood", NAMES)
@pytest.mark.parametrize("loader", [load_iris, load_wine])
def test_defaults_converge_and_are_about_right(loader, likelihood):
    X, y = loader(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=1, stratify=y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = SVGPClassifier(likelihood=likelihood, random_state=0).fit(X, y)
    assert model.converged_
    assert model.score(X_test, y_test) > 0.9
    assert log_loss(y_test, model.predict_proba(X_test)) < 0.3
    assert abs(model.loo_score_ - model.score(X_test, y_test)) < 0.1
    assert model.loo_log_loss_ < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", NAMES)
def test_defaults_on_digits(likelihood):
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    model = SVGPClassifier(likelihood=likelihood, random_state=0).fit(X, y)
    assert model.converged_
    assert model.score(X_test, y_test) > 0.97
    found = log_loss(y_test, model.predict_proba(X_test))
    assert found < 0.13
    assert abs(model.loo_log_loss_ - found) < 0.04


def test_a_fixed_kernel_has_one_optimum_whatever_the_inference():
    X, y = three_blobs(120)
    settings = {
        "kernel": RBF(variance=3.0),
        "hyperparameters": "fixed",
        "learn_inducing": False,
        "random_state": 0,
    }
    best = SVGPClassifier(20, inference="coordinate", tol=1e-8, max_iter=500, **settings).fit(X, y)
    for other in ({"tol": 1e-7}, {"inference": "adam", "learning_rate": 0.05, "tol": 1e-5}):
        model = SVGPClassifier(20, **{**settings, **other}).fit(X, y)
        assert_allclose(model.predict_proba(X), best.predict_proba(X), atol=5e-3)
    minibatches = SVGPClassifier(20, inference="natural", batch_size=30, tol=1e-3, max_iter=200, **settings)
    assert_allclose(minibatches.fit(X, y).predict_proba(X), best.predict_proba(X), atol=0.05)


@pytest.mark.parametrize("likelihood", NAMES)
def test_two_classes_are_one_function(likelihood):
    X, y = two_moons(100)
    model = SVGPClassifier(20, likelihood=likelihood, random_state=0).fit(X, y)
    assert model.model_.m.shape == (1, 20)
    assert model.score(X, y) > 0.93
    assert_allclose(model.predict_proba(X).sum(1), 1.0)
    # All rows as inducing points and a fixed kernel, or the order of rows, which labels change, matters.
    dense = {"likelihood": likelihood, "hyperparameters": "fixed", "learn_inducing": False, "tol": 1e-6}
    one, other = (SVGPClassifier(100, **dense).fit(X, labels) for labels in (y, 1 - y))
    assert_allclose(one.predict_proba(X)[:, ::-1], other.predict_proba(X), atol=1e-6)


def test_two_classes_have_the_kernel_of_a_difference():
    """With a fixed kernel k per class the prior of the difference is 2k."""
    X, y = two_moons(60)
    model = SVGPClassifier(60, kernel=RBF(variance=1.5), hyperparameters="fixed", learn_inducing=False).fit(
        X, y
    )
    mean, std = model.predict_latent(np.full((1, 2), 1e3))  # far away the prior is left
    assert_allclose(mean, 0.0, atol=1e-6)
    assert_allclose((std**2).sum(), 2.0 * 1.5, rtol=1e-6)


@pytest.mark.parametrize("likelihood", NAMES)
def test_weights_are_repetitions_and_order_does_not_matter_on_minibatches_too(likelihood):
    X, y = three_blobs(60)
    weight = np.tile([1, 2, 3], 20)
    settings = {"likelihood": likelihood, "batch_size": 16, "max_iter": 30, "tol": 0.0, "random_state": 3}
    weighted = SVGPClassifier(12, **settings).fit(X, y, sample_weight=weight)
    with pytest.warns(bayesvm.RepeatedRowsWarning):
        repeated = SVGPClassifier(12, **settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-9)
    order = np.random.default_rng(0).permutation(60)
    shuffled = SVGPClassifier(12, **settings).fit(X[order], y[order], sample_weight=weight[order])
    assert_allclose(weighted.predict_proba(X), shuffled.predict_proba(X), atol=1e-9)
    other_seed = SVGPClassifier(12, **{**settings, "random_state": 4}).fit(X, y, sample_weight=weight)
    assert np.abs(other_seed.predict_proba(X) - weighted.predict_proba(X)).max() > 1e-6


def test_probabilities_are_the_model_s_or_calibrated():
    X, y = three_blobs(120)
    own = SVGPClassifier(20, random_state=0).fit(X, y)
    calibrated = SVGPClassifier(20, probabilities="calibrated", random_state=0).fit(X, y)
    for a, b in zip(own.predict_latent(X), calibrated.predict_latent(X), strict=True):
        assert_allclose(a, b)
    mean, std = own.predict_latent(X[:20])
    rng = np.random.default_rng(0)
    f = mean + std * rng.standard_normal((100_000, 20, 3))
    p = np.exp(f - f.max(2, keepdims=True))
    assert_allclose(own.predict_proba(X[:20]), (p / p.sum(2, keepdims=True)).mean(0), atol=5e-3)
    assert np.abs(own.predict_proba(X) - calibrated.predict_proba(X)).max() > 1e-3
    assert own.model_.likelihood == Softmax()
    assert calibrated.model_.likelihood is None


def test_a_likelihood_that_is_no_distribution_is_calibrated():
    X, y = three_blobs(120)
    model = SVGPClassifier(20, likelihood=MulticlassHinge(), random_state=0).fit(X, y)
    assert model.model_.likelihood is None
    assert model.score(X, y) > 0.85
    assert_allclose(model.predict_proba(X).sum(1), 1.0)


def test_robust_max_knows_only_the_noise_of_labels_as_aleatoric():
    X, y = three_blobs(120)
    model = SVGPClassifier(20, likelihood=RobustMax(epsilon=0.05), random_state=0).fit(X, y)
    total, aleatoric, epistemic = model.uncertainty(X)
    noise = -0.95 * np.log(0.95) - 0.05 * np.log(0.025)
    assert_allclose(aleatoric, noise, rtol=1e-6)
    assert np.all(epistemic >= -1e-12)
    assert_allclose(total, aleatoric + epistemic)
    assert model.predict_proba(X).min() >= 0.025 - 1e-9


@pytest.mark.parametrize("likelihood", [*NAMES, RobustMax(epsilon=0.01)])
def test_saved_models_predict_the_same(tmp_path, likelihood):
    X, y = three_blobs(60)
    model = SVGPClassifier(10, likelihood=likelihood, random_state=0).fit(X, y)
    again = load(save(model, tmp_path / "model.skops"))
    assert_allclose(again.predict_proba(X), model.predict_proba(X))
    assert again.get_params()["likelihood"] == likelihood


def test_warm_start_goes_on():
    X, y = three_blobs(120)
    model = SVGPClassifier(20, warm_start=True, random_state=0).fit(X, y)
    first = model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ < first
    assert model.elbo_curve_[-1] > model.elbo_curve_[0] - 1.0


def test_single_precision_is_close():
    X, y = three_blobs(120)
    double, single = (
        SVGPClassifier(10, dtype=dtype, max_iter=40, tol=0.0, random_state=0).fit(X, y)
        for dtype in ("float64", "float32")
    )
    assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=0.02)


@dataclass(frozen=True)
class OneLatent(BinaryHinge):
    """A stranger's likelihood for two classes."""

    shift_invariant: ClassVar[bool] = False


@pytest.fixture
def registered():
    for _ in range(2):  # a cell of a notebook may run twice
        register_likelihood("one_latent", OneLatent)
    yield "one_latent"
    del LIKELIHOODS["one_latent"]


def test_registered_likelihoods_have_a_name(registered):
    X, y = two_moons(80)
    model = SVGPClassifier(20, likelihood=registered, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="'softmax' is a built-in likelihood"):
        register_likelihood("softmax", OneLatent)
    with pytest.raises(ValueError, match="'one_latent' has one latent function for two classes"):
        SVGPClassifier(likelihood=registered).fit(*three_blobs())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"likelihood": "logit"}, ValueError, r"likelihood='logit' is not valid.*'robustmax', 'softmax'"),
        ({"likelihood": 3}, TypeError, "row_terms and log_likelihood; got 3"),
        ({"likelihood": Softmax}, TypeError, "must be a name or an object"),
        ({"inference": "newton"}, ValueError, "inference='newton' is not valid"),
        ({"likelihood": "robustmax", "inference": "coordinate"}, ValueError, "a log-concave.*natural_adam"),
        ({"likelihood": "robustmax", "inference": "natural"}, ValueError, "needs a log-concave"),
        ({"inference": "ecm"}, ValueError, "cannot fit SVGPClassifier here"),
        ({"inference": "gibbs"}, ValueError, "cannot fit SVGPClassifier here"),
        ({"natural_rate": 1.5}, ValueError, "natural_rate=1.5 is not valid; it must be at most 1"),
        ({"natural_rate": 0.0}, ValueError, "natural_rate=0.0 is not valid"),
        ({"learning_rate": -1.0}, ValueError, "learning_rate=-1.0 is not valid"),
        ({"probabilities": "platt"}, ValueError, r"probabilities='platt'.*'model', 'calibrated'"),
        ({"hyperparameters": "blend"}, ValueError, r"hyperparameters='blend'.*'elbo', 'fixed'"),
        ({"n_inducing": 0}, ValueError, "n_inducing=0 is not valid"),
        ({"n_chains": 0}, ValueError, "n_chains=0 is not valid"),
        ({"n_draws": 2.5}, ValueError, "n_draws=2.5 is not valid"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        SVGPClassifier(**arguments).fit(*three_blobs())


@pytest.mark.parametrize("hyperparameters", ["fixed", "elbo"])
@pytest.mark.parametrize("likelihood", NAMES)
def test_slices_sample_every_likelihood(likelihood, hyperparameters):
    X, y = two_moons(60)
    model = SVGPClassifier(
        20,
        likelihood=likelihood,
        inference="slice",
        hyperparameters=hyperparameters,
        n_chains=3,
        n_draws=40,
        max_iter=300,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    assert model.chains_.f.shape == (3, 40, 60, 1)
    assert model.score(X, y) > 0.8
    assert np.isfinite(model.log_variation_ratio(X)).all()


def test_few_epochs_warn():
    with pytest.warns(ConvergenceWarning, match="did not converge in 5"):
        SVGPClassifier(10, max_iter=5).fit(*three_blobs())
