"""A compiled predictor says what its estimator says: to 1e-4 in single precision, to 1e-8 in double."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from bayesvm import (
    BayesianSVC,
    BinaryBayesianSVC,
    LinearBayesianSVC,
    OneVsRestBayesianSVC,
    SVGPClassifier,
)
from bayesvm._compile import compile_model
from bayesvm._prediction import proba
from bayesvm.kernels import KERNEL_NAMES, RBF

from ..estimators.data import FAST, problem

SINGLE, DOUBLE = 1e-4, 1e-8
KERNELS = [*KERNEL_NAMES, "0.1*rbf + anova", "linear + rbf*constant", "matern32*anova + linear"]


def queries(X: np.ndarray) -> np.ndarray:
    """The rows, rows between them, and rows far away."""
    return np.concatenate([X, 0.5 * (X + np.roll(X, 1, 0)), 10.0 * X[:5], 1e6 * X[:5]])


def assert_agrees(model, X: np.ndarray, dtypes: tuple[str, str] = ("float32", "float64")) -> None:
    """With the precisions that shall result where single and double are asked for."""
    Q = queries(X)
    expected = model.predict_proba(Q)
    for asked, dtype in zip(("float32", "float64"), dtypes, strict=True):
        predictor = model.compile_predictor(asked)
        assert predictor.dtype == dtype
        tolerance = SINGLE if dtype == "float32" else DOUBLE
        found = predictor.predict_proba(Q)
        assert found.dtype == np.float64
        assert_allclose(found, expected, rtol=0, atol=tolerance)
        assert_allclose(found.sum(1), 1.0, atol=1e-12)
        one = np.stack([predictor.predict_proba_one(x) for x in Q[:20]])
        assert_allclose(one, found[:20], rtol=0, atol=tolerance)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_kernel(kernel, n_classes):
    X, y = problem(n_classes)
    assert_agrees(BayesianSVC(20, kernel=kernel, local=False, **FAST).fit(X, y), X)


def test_learned_parameters_and_shared_length_scales():
    X, y = problem(3)
    assert_agrees(BayesianSVC(20, ard=False, random_state=0).fit(X, y), X)
    assert_agrees(BayesianSVC(20, kernel="0.1*rbf + anova", random_state=0).fit(X, y), X)


@pytest.mark.parametrize("rows", [10, 60])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_local_part(n_classes, rows):
    """With fewer rows than neighbours as well."""
    X, y = problem(n_classes)
    model = BayesianSVC(20, local=False, **FAST).fit(X, y)
    rng = np.random.default_rng(0)
    X, J = X[:rows], model.model_.m.shape[0]
    from bayesvm._fit.local import LocalPart

    U = model.model_.scaler.transform(X)
    scale = rng.uniform(0.5, 1.5, U.shape[1])
    part = LocalPart(
        scale,
        np.median(U * scale, 0),
        U * scale - np.median(U * scale, 0),
        rng.gamma(1.0, 3.0, (rows, J)) * (rng.random((rows, J)) > 0.2),
        rng.normal(size=(rows, J)),
        variance=2.0,
        length=0.5,
        typical=0.3,
    )
    with_part = replace(model.model_, local=part)
    assert abs(proba(with_part.on("cpu", torch.float64), X) - model.predict_proba(X)).max() > 0.05
    model.model_ = with_part
    assert_agrees(model, X)


def test_local_part_of_rows_that_repeat():
    """Ties among neighbours are broken as the estimator breaks them."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (200, 3)).astype(float)
    y = (X.sum(1) % 3).astype(int)
    X += rng.integers(0, 2, (200, 3)) * 0.05
    model = BayesianSVC(20, **FAST).fit(X, y)
    assert model.local_part_ is not None
    assert_agrees(model, X)


@pytest.mark.parametrize("make", [OneVsRestBayesianSVC, LinearBayesianSVC])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_relatives(make, n_classes):
    X, y = problem(n_classes)
    assert_agrees(make(random_state=0).fit(X, y), X)


def test_binary():
    X, y = problem(2)
    assert_agrees(BinaryBayesianSVC(20, **FAST).fit(X, y), X)


@pytest.mark.parametrize("likelihood", ["softmax", "robustmax"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_likelihoods_with_probabilities_of_their_own(likelihood, n_classes):
    X, y = problem(n_classes)
    model = SVGPClassifier(12, likelihood=likelihood, max_iter=20, tol=0.0, random_state=0).fit(X, y)
    assert model.model_.likelihood is not None
    assert_agrees(model, X)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_mode_shares_one_variance_among_classes(n_classes):
    X, y = problem(n_classes)
    model = BayesianSVC(20, inference="ecm", **FAST).fit(X, y)
    assert model.model_.pooled
    assert len(model.compile_predictor().posterior.removed) == 1
    # The order of three means decides, so that ties need every digit.
    assert_agrees(model, X, ("float64" if n_classes == 3 else "float32", "float64"))


def test_a_posterior_wider_than_the_prior():
    """Sites of negative precision leave some directions less certain than before."""
    X, y = problem(3)
    model = BayesianSVC(20, local=False, **FAST).fit(X, y)
    m = model.model_
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=m.R.shape))[0]
    precision = (turned * np.linspace(0.5, 30.0, m.R.shape[1])) @ turned.transpose(0, 2, 1)
    model.model_ = replace(m, R=np.linalg.cholesky(precision))
    predictor = model.compile_predictor()
    assert predictor.posterior.added is not None
    assert predictor.posterior.added.shape[2] < predictor.posterior.removed.shape[2]
    assert_agrees(model, X)


@pytest.mark.filterwarnings("ignore:.* nearly determine the model:UserWarning")
def test_rows_of_great_weight():
    """Precisions up to 1e9 leave no directions that only rounding has made."""
    X, y = problem(3)
    model = BayesianSVC(20, kernel="rbf", local=False, committee=False, max_iter=5, tol=0.0, **FAST)
    model.fit(X, y, sample_weight=np.full(len(X), 1e7))
    assert np.linalg.eigvalsh(model.model_.R[0] @ model.model_.R[0].T).max() > 1e8
    assert model.compile_predictor("float64").posterior.added is None
    expected = model.predict_proba(X)
    assert_allclose(model.compile_predictor("float64").predict_proba(X), expected, rtol=0, atol=1e-7)
    assert_allclose(model.compile_predictor().predict_proba(X), expected, rtol=0, atol=SINGLE)


def test_directions_the_rows_say_nothing_about_are_left_out():
    X, y = problem(3)
    model = BayesianSVC(20, kernel="linear", local=False, **FAST).fit(X, y)
    # Three features and an intercept span all linear functions; the rest is jitter.
    assert model.compile_predictor().posterior.removed.shape[2] < model.model_.R.shape[1]


def test_columns_of_any_size():
    """Means far from zero, constant columns, units from 1e-9 to 1e9."""
    X, y = problem(3)
    units = np.array([1e-9, 1e9, 1.0])
    X = np.column_stack([X * units + 1e6 * units, np.full(len(X), 7.0)])
    model = BayesianSVC(20, local=False, **FAST).fit(X, y)
    Q = X + 0.1 * units.repeat([1, 1, 2]) * np.random.default_rng(0).normal(size=X.shape)
    assert_allclose(model.compile_predictor().predict_proba(Q), model.predict_proba(Q), rtol=0, atol=SINGLE)


@dataclass(frozen=True)
class Cubic:
    """A kernel of a user's own."""

    def init(self, X):
        return {"log_variance": X.new_zeros(())}

    def cross(self, params, X, Z):
        return params["log_variance"].exp() * (1.0 + X @ Z.mT / X.shape[1]) ** 3

    def diag(self, params, X):
        return params["log_variance"].exp() * (1.0 + X.square().mean(1)) ** 3


@pytest.mark.parametrize("n_classes", [2, 3])
def test_kernel_of_a_users_own(n_classes):
    X, y = problem(n_classes)
    model = BayesianSVC(20, kernel=Cubic(), local=False, **FAST).fit(X, y)
    Q = np.concatenate([X, 2.0 * X])
    for dtype, tolerance in (("float32", SINGLE), ("float64", DOUBLE)):
        found = model.compile_predictor(dtype).predict_proba(Q)
        assert_allclose(found, model.predict_proba(Q), rtol=0, atol=tolerance)


def test_a_subclass_of_a_kernel_keeps_its_own_code():
    class Halved(RBF):
        def cross(self, params, X, Z):
            return 0.5 * super().cross(params, X, Z)

        def diag(self, params, X):
            return 0.5 * super().diag(params, X)

    X, y = problem(3)
    assert_agrees(BayesianSVC(20, kernel=Halved(), local=False, **FAST).fit(X, y), X)


def test_single_precision_gives_way_where_it_is_not_enough():
    """Means that jump from one inducing point to the next, under a kernel that hardly allows it."""
    X, y = problem(3)
    m = BayesianSVC(20, kernel=RBF(length_scale=5.0), local=False, **FAST).fit(X, y).model_
    means = np.random.default_rng(0).normal(size=m.m.shape)
    jumpy = replace(m, m=np.linalg.solve(m.Lz, means.T).T)
    assert compile_model(jumpy, np.arange(3), None, "float32").dtype == "float64"
    assert compile_model(m, np.arange(3), None, "float32").dtype == "float32"


@pytest.mark.parametrize("n_classes", [2, 3])
def test_draws_are_refused(n_classes):
    X, y = problem(n_classes)
    model = BayesianSVC(20, local=False, **FAST).fit(X, y)
    model.model_ = replace(model.model_, draws=np.zeros((40, *model.model_.m.shape)))
    with pytest.raises(ValueError, match="40 draws"):
        model.compile_predictor()


def test_many_classes():
    rng = np.random.default_rng(0)
    centres = 4.0 * rng.normal(size=(40, 3))
    y = np.arange(200) % 40
    X = centres[y] + rng.normal(size=(200, 3))
    assert_agrees(BayesianSVC(30, local=False, max_iter=5, tol=0.0, **FAST).fit(X, y), X)
