"""The committee of hinge and softmax: its posterior, its mixture, and what it is for (section 11)."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import xlogy
from sklearn.datasets import load_iris, make_classification

from bayesvm import BayesianSVC, SVGPClassifier
from bayesvm._core.calibration import member_weights
from bayesvm._core.likelihoods import BinaryHinge, Committee, MulticlassHinge, Softmax
from bayesvm._core.variation_ratio import argmax_probability, log_not_largest


def weighted(model, *weights):
    """The model with other weights of its members."""
    parts = zip(model.model_.calibration, weights, strict=True)
    model.model_ = replace(model.model_, calibration=tuple(replace(c, weight=w) for c, w in parts))
    return model


@pytest.fixture(scope="module", params=[2, 4])
def fitted(request):
    X, y = make_classification(
        160, 6, n_informative=4, n_redundant=0, n_classes=request.param, class_sep=0.7, random_state=0
    )
    return X, y, lambda: weighted(BayesianSVC(random_state=0).fit(X, y), 0.4, 0.6)


@pytest.mark.parametrize(("hinge", "J"), [(BinaryHinge(), 1), (MulticlassHinge(), 5)])
def test_row_terms_are_those_of_the_members(hinge, J):
    generator = torch.Generator().manual_seed(0)
    F, s2 = torch.randn(40, 2 * J, generator=generator), 0.1 + torch.rand(40, 2 * J, generator=generator)
    y = torch.randint(max(J, 2), (40,), generator=generator)
    found = Committee((hinge, Softmax())).row_terms(y, F, s2)
    first, second = hinge.row_terms(y, F[:, :J], s2[:, :J]), Softmax().row_terms(y, F[:, J:], s2[:, J:])
    torch.testing.assert_close(found.value, first.value + second.value)
    torch.testing.assert_close(found.slope, torch.cat([first.slope, second.slope], 1))
    torch.testing.assert_close(found.W, torch.cat([first.W, second.W], 1))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_posterior_is_that_of_each_member_alone(n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y >= 3 - n_classes], y[y >= 3 - n_classes]
    options = {"hyperparameters": "fixed", "tol": 1e-6, "max_iter": 500, "kernel": "rbf", "n_inducing": 30}
    alone = {"committee": False, "local": False, "normal_scores": False}
    both = BayesianSVC(**options, local=False, normal_scores=False, random_state=0).fit(X, y)
    hinge = BayesianSVC(**options, **alone, random_state=0).fit(X, y)
    J = hinge.model_.m.shape[0]
    assert both.model_.m.shape[0] == 2 * J
    assert_allclose(both.model_.m[:J], hinge.model_.m, atol=1e-3)
    assert_allclose(np.stack(both.predict_latent(X)), np.stack(hinge.predict_latent(X)), atol=1e-3)
    softmax = SVGPClassifier(**options, likelihood="softmax", inference="coordinate", random_state=0)
    if n_classes > 2:  # with two the hinge's difference has the kernel twice
        softmax.fit(X, y)
        assert_allclose(both.model_.m[J:], softmax.model_.m, atol=1e-3)


def test_probabilities_are_a_mixture(fitted):
    X, _, fit = fitted
    model = fit()
    p = model.predict_proba(X)
    each = [weighted(model, *weights).predict_proba(X) for weights in ((1.0, 0.0), (0.0, 1.0))]
    assert_allclose(p, 0.4 * each[0] + 0.6 * each[1], atol=1e-12)
    assert np.abs(each[0] - each[1]).max() > 0.01  # or this test could not fail
    model = weighted(model, 0.4, 0.6)
    assert_array_equal(model.predict(X), model.classes_[p.argmax(1)])
    assert model.member_weights_ == {"hinge": 0.4, "softmax": 0.6}
    compiled = model.compile_predictor("float64")
    assert_allclose(compiled.predict_proba(X), p, atol=1e-6)
    assert_allclose(model.sample_proba(X[:5], 4000, random_state=0).mean(0), p[:5], atol=0.03)


def test_disagreement_of_members_is_epistemic(fitted):
    X, _, fit = fitted
    model = fit()
    p, both = model.predict_proba(X), model.uncertainty(X)
    assert_allclose(both.total, -xlogy(p, p).sum(1), atol=1e-10)
    assert_allclose(both.aleatoric + both.epistemic, both.total, atol=1e-12)
    parts = [weighted(model, *weights).uncertainty(X) for weights in ((1.0, 0.0), (0.0, 1.0))]
    assert_allclose(both.aleatoric, 0.4 * parts[0].aleatoric + 0.6 * parts[1].aleatoric, atol=1e-10)
    assert (both.epistemic >= 0.4 * parts[0].epistemic + 0.6 * parts[1].epistemic - 1e-9).all()


def test_the_variation_ratio_counts_draws_of_all_members(fitted):
    X, _, fit = fitted
    model = fit()
    exact = model.variation_ratio(X)
    assert_allclose(model.log_variation_ratio(X), np.log(exact), atol=1e-6)
    assert_allclose(model.variation_ratio(X, n_samples=3000, random_state=0), exact, atol=0.05)


def test_log_probability_not_to_be_the_largest():
    F = torch.tensor([[0.0, 1.0, 3.0], [0.0, 1.0, 3.0], [9.0, 0.0, 1.0]], dtype=torch.float64)
    s2 = torch.full_like(F, 0.7)
    own = torch.tensor([[0], [2], [0]])
    P = argmax_probability(F, s2)
    found = log_not_largest(F, s2, own, P.gather(1, own)[:, 0])
    rest = P.scatter(1, own, 0.0).sum(1)
    torch.testing.assert_close(found, rest.log(), atol=1e-8, rtol=1e-4)


def test_weights_maximise_the_left_out_likelihood():
    generator = torch.Generator().manual_seed(0)
    proba, weight = torch.rand(3, 50, generator=generator), torch.rand(50, generator=generator)
    found = member_weights(proba, weight).numpy()

    def loss(z):
        w = np.exp(z - np.logaddexp.reduce(z))
        return -(weight.numpy() @ np.log(w @ proba.numpy())) - np.log(w).mean()

    best = minimize(loss, np.zeros(3)).x
    assert_allclose(found, np.exp(best - np.logaddexp.reduce(best)), atol=0.01)


def test_a_member_of_little_weight_is_dropped():
    proba = torch.stack([torch.full((200,), 0.9), torch.full((200,), 0.2)])
    assert member_weights(proba, torch.ones(200)).tolist() == [1.0, 0.0]
    X, y = load_iris(return_X_y=True)
    model = weighted(BayesianSVC(random_state=0).fit(X, y), 1.0, 0.0)
    alone = replace(
        model.model_, m=model.model_.m[:3], R=model.model_.R[:3], calibration=model.model_.calibration[:1]
    )
    expected, model.model_ = model.predict_proba(X), alone
    assert_array_equal(model.predict_proba(X), expected)
    assert len(model.compile_predictor().posterior.removed) == 3


def test_no_class_has_a_majority():
    """Largest probability .45 everywhere: the softmax has most weight, not the hinge (Liu, 2007)."""
    rng = np.random.default_rng(0)
    n = 6000
    X = rng.uniform(0.0, 3.0, (n, 1))
    p = np.full((n, 3), 0.275)
    p[np.arange(n), X[:, 0].astype(int)] = 0.45
    y = (rng.uniform(size=(n, 1)) > p.cumsum(1)).sum(1)
    model = BayesianSVC(n_inducing=40, random_state=0).fit(X, y)
    new = np.linspace(0.0, 3.0, 600, endpoint=False)[:, None]
    assert np.mean(model.predict(new) == new[:, 0].astype(int)) > 0.93
    assert model.member_weights_["softmax"] > 0.5


def test_models_that_learn_on_keep_their_members():
    """Also where rows have become too many for exact rivals."""
    X, y = load_iris(return_X_y=True)
    both = BayesianSVC(random_state=0).fit(X, y)
    both.rivals = "sampled"
    both.partial_fit(X[:20] + 0.01, y[:20])
    assert list(both.member_weights_) == ["hinge", "softmax"]
    assert both.score(X, y) > 0.9
    alone = BayesianSVC(committee=False, random_state=0).fit(X, y)
    alone.committee = True
    alone.partial_fit(X[:20] + 0.01, y[:20])
    assert list(alone.member_weights_) == ["hinge"]
    alone.set_params(warm_start=True).fit(X, y)
    assert list(alone.member_weights_) == ["hinge", "softmax"]


def test_minibatches_of_two_classes_converge_for_both_members():
    """The changes of two differences are not those of two classes: their common part counts."""
    X, y = make_classification(1200, 6, n_informative=4, class_sep=0.8, random_state=1)
    options = {
        "kernel": "rbf",
        "hyperparameters": "fixed",
        "local": False,
        "n_inducing": 40,
        "random_state": 0,
    }
    settled = BayesianSVC(**options, tol=1e-6, max_iter=300).fit(X, y)
    batches = BayesianSVC(**options, batch_size=128).fit(X, y)
    for ours, theirs in zip(batches.model_.m, settled.model_.m, strict=True):
        assert np.abs(ours - theirs).mean() < 0.05
    assert_allclose(batches.predict_proba(X), settled.predict_proba(X), atol=0.05)


def test_streamed_kernel_steps_are_those_of_the_softmax(monkeypatch):
    monkeypatch.setattr("bayesvm._fit.defaults.IN_MEMORY_ROWS", 300)
    X, y = load_iris(return_X_y=True)
    X, y = np.tile(X, (4, 1)) + np.random.default_rng(0).normal(scale=0.1, size=(600, 4)), np.tile(y, 4)
    model = BayesianSVC(20, hyperparameters="elbo", rivals="exact", random_state=0).fit(X, y)
    assert list(model.member_weights_) == ["hinge", "softmax"]
    assert model.model_.m.shape[0] == 6
    assert model.score(X, y) > 0.9
