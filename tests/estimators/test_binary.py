"""The binary machine, and the same for every class of several."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

from bayesvm import BayesianSVC, BinaryBayesianSVC, OneVsRestBayesianSVC
from bayesvm.kernels import RBF

from .data import FAST, three_blobs, two_moons


@pytest.mark.parametrize(("rivals", "expectation"), [("exact", "exact"), ("mean", "augmented")])
def test_two_classes_of_the_multiclass_model_are_this_with_twice_the_kernel(rivals, expectation):
    X, y = two_moons(90)
    ours = BinaryBayesianSVC(30, kernel=RBF(variance=3.0), expectation=expectation, **FAST).fit(X, y)
    plain = {"committee": False, "normal_scores": False, **FAST}
    theirs = BayesianSVC(30, kernel=RBF(variance=1.5), rivals=rivals, **plain).fit(X, y)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
    for a, b in zip(ours.predict_latent(X), theirs.predict_latent(X), strict=True):
        assert_allclose(a, b, atol=1e-12)
    other = BinaryBayesianSVC(30, kernel=RBF(variance=1.5), expectation=expectation, **FAST).fit(X, y)
    assert np.abs(other.predict_latent(X)[0] - theirs.predict_latent(X)[0]).max() > 0.01


def test_three_classes_are_refused_and_alternatives_named():
    with pytest.raises(ValueError, match="3 classes; use BayesianSVC or OneVsRestBayesianSVC"):
        BinaryBayesianSVC().fit(*three_blobs())


def test_the_augmented_expectation_is_the_more_certain_one():
    X, y = two_moons(90)
    exact, augmented = (
        BinaryBayesianSVC(30, expectation=e, **FAST).fit(X, y) for e in ("exact", "augmented")
    )
    assert augmented.predict_latent(X)[1].mean() < 0.9 * exact.predict_latent(X)[1].mean()


@pytest.mark.parametrize("wrapper", [OneVsRestClassifier, OneVsOneClassifier])
def test_scikit_learn_s_wrappers_make_it_multiclass(wrapper):
    X, y = three_blobs(120)
    model = wrapper(BinaryBayesianSVC(20, **FAST)).fit(X, y)
    assert model.score(X, y) > 0.85


def test_one_function_per_class_is_one_binary_model_per_class():
    X, y = three_blobs(90)
    # Inducing points are the rows, so that they do not depend on which classes share them.
    together = OneVsRestBayesianSVC(200, kernel="rbf", tol=1e-10, max_iter=500, **FAST).fit(X, y)
    mean, std = together.predict_latent(X)
    for j in range(3):
        alone = BinaryBayesianSVC(200, kernel="rbf", tol=1e-10, max_iter=500, **FAST).fit(X, y == j)
        m, s = alone.predict_latent(X)
        assert_allclose(mean[:, j], m[:, 1] - m[:, 0], atol=1e-5)
        assert_allclose(std[:, j] ** 2, (s**2).sum(1), atol=1e-5)


def test_with_two_classes_it_is_the_binary_model():
    X, y = two_moons()
    one, two = (E(20, **FAST).fit(X, y) for E in (BinaryBayesianSVC, OneVsRestBayesianSVC))
    assert_allclose(one.predict_proba(X), two.predict_proba(X))


def test_probabilities_are_joint():
    """Not each class's own odds, normalised: they sum to one where all functions are negative."""
    X, y = three_blobs(120)
    model = OneVsRestBayesianSVC(30, kernel="rbf", **FAST).fit(X, y)
    p = model.predict_proba(X)
    assert_allclose(p.sum(1), 1.0)
    assert -np.log(p[np.arange(len(y)), y]).mean() < 0.5
    assert model.loo_log_loss_ < 0.6
    # Half-way between rows of different classes, where no function claims a row.
    one, other = np.nonzero(y[:, None] < y)
    between = 0.5 * (X[one] + X[other])
    between = between[(model.predict_latent(between)[0] < -0.2).all(1)]
    assert len(between) > 100
    p, mean = model.predict_proba(between), model.predict_latent(between)[0]
    assert_allclose(p.sum(1), 1.0)
    own = 1.0 / (1.0 + np.exp(-model.temperature_ * mean))
    assert (own.sum(1) < 0.95).all()
    normalised = own / own.sum(1, keepdims=True)
    assert np.median(np.abs(p - normalised).max(1)) > 0.02


@pytest.mark.parametrize("inference", ["coordinate", "natural", "adam"])
def test_three_ways_to_the_same_posterior(inference):
    X, y = two_moons(90)
    settings = {
        "coordinate": {"tol": 1e-8, "max_iter": 500},
        "natural": {"batch_size": 90, "tol": 1e-6, "max_iter": 500},
        "adam": {"batch_size": 90, "learning_rate": 0.05, "max_iter": 1500, "tol": 1e-7},
    }[inference]
    reference = BinaryBayesianSVC(10, tol=1e-10, max_iter=500, **FAST).fit(X, y).predict_latent(X)
    model = BinaryBayesianSVC(10, inference=inference, **settings, **FAST).fit(X, y)
    for found, wanted in zip(model.predict_latent(X), reference, strict=True):
        assert_allclose(found, wanted, atol=1e-4 if inference == "coordinate" else 2e-3)


def test_inference_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="approximation='fitc' does not go with inference='coordinate'"):
        BinaryBayesianSVC(approximation="fitc").fit(*two_moons())
    with pytest.raises(ValueError, match="inference='magic' is not valid"):
        BinaryBayesianSVC(inference="magic").fit(*two_moons())


def test_warm_starts_with_two_classes():
    X, y = two_moons()
    model = BayesianSVC(20, warm_start=True, **FAST).fit(X, y)
    assert model.fit(X, y).n_iter_ <= 2
