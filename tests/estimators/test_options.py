"""Every option does what it says; user-written kernels, presets, warm starts, precision."""

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bayesvm import BayesianSVC, SVGPClassifier
from bayesvm._inference.methods import METHODS
from bayesvm.kernels import KERNEL_NAMES, RBF, Constant, Linear, Product, Sum

from .data import FAST, assert_sound, problem, three_blobs


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("rivals", ["auto", "exact", "sampled", "mean"])
@pytest.mark.parametrize("inference", ["auto", "coordinate", "natural"])
def test_inference_and_rivals(inference, rivals, n_classes):
    X, y = problem(n_classes)
    model = BayesianSVC(inference=inference, rivals=rivals, batch_size=20, tol=0.1, **FAST).fit(X, y)
    assert_sound(model, X)
    assert model.converged_
    assert model.loo_score_ > 0.8


def test_ways_of_inference_agree():
    X, y = three_blobs(90)
    coordinate = BayesianSVC(inference="coordinate", rivals="exact", tol=1e-4, max_iter=200, **FAST).fit(X, y)
    natural = BayesianSVC(inference="natural", rivals="exact", batch_size=45, max_iter=300, tol=3e-3, **FAST)
    adam = BayesianSVC(
        inference="adam", rivals="exact", learning_rate=0.02, max_iter=400, tol=0.0, batch_size=90, **FAST
    )
    mean, std = coordinate.predict_latent(X)
    for other in (natural.fit(X, y), adam.fit(X, y)):
        other_mean, other_std = other.predict_latent(X)
        centred = other_mean - other_mean.mean(1, keepdims=True)
        assert_allclose(centred, mean - mean.mean(1, keepdims=True), atol=0.15)
        assert_allclose(other_std, std, rtol=0.1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("rivals", ["exact", "sampled", "mean"])
def test_adam_with_few_epochs(rivals, n_classes):
    X, y = problem(n_classes)
    model = BayesianSVC(
        inference="adam", rivals=rivals, max_iter=4, batch_size=20, learning_rate=0.1, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        model.fit(X, y)
    assert_sound(model, X)
    assert len(model.elbo_curve_) == 4


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("hyperparameters", ["blend", "elbo", "loo", "fixed"])
def test_hyperparameters(hyperparameters, n_classes):
    X, y = problem(n_classes)
    model = BayesianSVC(hyperparameters=hyperparameters, random_state=0).fit(X, y)
    assert_sound(model, X)
    start = model.model_.kernel.init(torch.as_tensor(model.model_.scaler.transform(X)))
    moved = any(not np.array_equal(model.kernel_.params[k], start[k].numpy()) for k in start)
    assert moved == (hyperparameters != "fixed")
    assert len(model.kernel_curve_) > 0 or hyperparameters == "fixed"


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize(
    "kernel",
    [*sorted(KERNEL_NAMES), "0.1*rbf + anova", "linear + rbf*constant", "rbf*linear", "linear+anova"],
)
def test_kernels_by_name(kernel, ard):
    X, y = three_blobs(40)
    model = BayesianSVC(kernel=kernel, ard=ard, random_state=0).fit(X, y)
    assert_sound(model, X)
    relevance = model.feature_relevance_
    assert relevance.shape == (3,)
    assert relevance.sum() == pytest.approx(0.0 if kernel == "constant" else 1.0)


def test_composed_kernel_objects_equal_their_names():
    X, y = three_blobs(40)
    composed = Sum((Linear(), Product((RBF(), Constant()))))
    by_object = BayesianSVC(kernel=composed, random_state=0).fit(X, y)
    by_name = BayesianSVC(kernel="linear + rbf * constant", random_state=0).fit(X, y)
    assert_array_equal(by_object.predict_proba(X), by_name.predict_proba(X))
    assert clone(by_object).kernel == composed


@dataclass(frozen=True)
class RationalQuadratic:
    """A user's kernel: the documented protocol and nothing else."""

    def init(self, X):
        return {"log_length": X.new_tensor(0.5 * math.log(X.shape[1])), "log_alpha": X.new_tensor(0.0)}

    def cross(self, params, X, Z):
        r2 = torch.cdist(X, Z).square() / params["log_length"].exp() ** 2
        alpha = params["log_alpha"].exp()
        return (1.0 + r2 / (2.0 * alpha)) ** -alpha

    def diag(self, params, X):
        return X.new_ones(X.shape[0])


class WithoutEquality(RationalQuadratic):
    """The same as an ordinary class that compares by identity."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


@pytest.mark.parametrize("n_classes", [2, 3])
def test_user_written_kernel(n_classes):
    X, y = problem(n_classes)
    model = BayesianSVC(kernel=RationalQuadratic(), random_state=0).fit(X, y)
    assert_sound(model, X)
    assert model.score(X, y) > 0.85  # smoke
    with pytest.raises(AttributeError, match="relevance"):
        _ = model.feature_relevance_
    assert not hasattr(model, "feature_relevance_")
    inside_sum = BayesianSVC(kernel=Sum((Linear(), RationalQuadratic())), **FAST).fit(X, y)
    assert_sound(inside_sum, X)
    with pytest.raises(AttributeError, match=r"RationalQuadratic.* has no method relevance\(params"):
        _ = inside_sum.feature_relevance_
    assert_sound(clone(BayesianSVC(kernel=WithoutEquality(), **FAST)).fit(X, y), X)


@pytest.mark.parametrize(
    ("model", "needs"),
    [
        (BayesianSVC(inference="gibbs"), "a likelihood that"),
        (BayesianSVC(inference="natural_adam", rivals="sampled"), "exact expectations"),
        (SVGPClassifier(inference="ecm"), "a likelihood whose mode is known, which that of Softmax is not"),
        (SVGPClassifier(inference="natural", likelihood="robustmax"), "a log-concave likelihood"),
    ],
    ids=["gibbs", "natural_adam", "ecm", "natural"],
)
def test_refusals_are_sentences_that_name_a_way_out(model, needs):
    X, y = three_blobs(30)
    with pytest.raises(
        ValueError, match=f"cannot fit {type(model).__name__} here: it needs {needs}"
    ) as error:
        model.fit(X, y)
    names = re.search(r"; use one of \[(.+)\]$", str(error.value)).group(1)
    others = [name.strip("'") for name in names.split(", ")]
    assert model.inference not in others
    assert set(others) < set(METHODS)
    assert "adam" in others
    for name in others:
        if name != "slice":  # takes long
            clone(model).set_params(inference=name, kernel="rbf", tol=10.0, n_inducing=5, **FAST).fit(X, y)


def test_learned_inducing_points_move():
    X, y = three_blobs()
    still = BayesianSVC(n_inducing=8, random_state=0).fit(X, y)
    moved = BayesianSVC(n_inducing=8, learn_inducing=True, random_state=0).fit(X, y)
    assert_sound(moved, X)
    assert not np.allclose(moved.inducing_points_, still.inducing_points_)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("settings", [{}, {"rivals": "sampled"}, {"kernel": "linear"}], ids=str)
def test_single_precision(n_classes, settings):
    X, y = problem(n_classes)
    double = BayesianSVC(**FAST, **settings).fit(X, y)
    single = BayesianSVC(dtype="float32", **FAST, **settings).fit(X, y)
    assert_sound(single, X)
    assert_sound(single, 1e20 * X)
    assert single.model_.m.dtype == np.float32
    assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=0.02)


def test_paper_preset():
    preset = BayesianSVC.paper()
    assert (preset.n_inducing, preset.max_iter, preset.learning_rate) == (64, 1000, 5e-4)
    assert (preset.inference, preset.rivals, preset.hyperparameters) == ("adam", "mean", "elbo")
    assert preset.learn_inducing
    X, y = three_blobs()
    model = BayesianSVC.paper(max_iter=5, random_state=0).fit(X, y)  # tol=0 promises no convergence
    assert_sound(model, X)
    assert BayesianSVC.paper(n_inducing=7).n_inducing == 7


def test_warm_start_continues():
    X, y = three_blobs()
    model = BayesianSVC(warm_start=True, n_inducing=20, random_state=0).fit(X, y)
    points, before = model.inducing_points_, model.predict_proba(X)
    model.set_params(hyperparameters="fixed").fit(X, y)
    assert_allclose(model.inducing_points_, points)
    assert_allclose(model.predict_proba(X), before, atol=0.05)
    assert model.n_iter_ <= 5


def test_warm_start_refuses_another_model():
    X, y = three_blobs()
    model = BayesianSVC(warm_start=True, **FAST).fit(X, y)
    with pytest.raises(ValueError, match=r"warm_start.*classes \[0, 1, 2\].*\[0, 1\]"):
        model.fit(X[y < 2], y[y < 2])
    model = BayesianSVC(warm_start=True, **FAST).fit(X, y)
    with pytest.raises(ValueError, match="warm_start"):
        model.fit(X, y + 1)
    model = BayesianSVC(warm_start=True, **FAST).fit(X, y)
    with pytest.raises(ValueError, match=r"warm_start.*kernel"):
        model.set_params(kernel="linear").fit(X, y)


def test_too_few_sweeps_warn():
    X, y = three_blobs()
    model = BayesianSVC(max_iter=1, tol=1e-9, **FAST)
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        model.fit(X, y)
    assert not model.converged_
    assert_sound(model, X)
