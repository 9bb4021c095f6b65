"""Whitened features (eq. 1.3), and closed-form derivatives against autograd of the plain formulas."""

import pytest
import torch

from bayesvm._core.features import DifferentiableFeatures, inducing_factor, whitened_features
from bayesvm._core.kernels import RBF, Anova, IsotropicLinear, Linear, Matern32, Matern52, Scaled, Sum
from bayesvm._linear import spanning_points
from tests.problems import DTYPE, normal


def _setup(n: int, p: int, seed: int):
    X, Z = normal(n, 3, seed=seed), normal(p, 3, seed=seed + 1)
    kernel = Matern32(variance=1.5)
    params = kernel.init(X)
    return kernel, params, X, Z, inducing_factor(kernel, params, Z)


def test_features_reproduce_the_nystrom_approximation():
    kernel, params, X, Z, Lz = _setup(12, 7, seed=0)
    A, residual = whitened_features(kernel, params, Z, Lz, X)
    Kxz, Kzz = kernel.cross(params, X, Z), kernel.cross(params, Z, Z)
    nystrom = Kxz @ torch.linalg.solve(Kzz, Kxz.mT)
    torch.testing.assert_close(A @ A.mT, nystrom, atol=1e-7, rtol=0)
    expected = kernel.diag(params, X) - nystrom.diagonal()
    torch.testing.assert_close(residual, expected, atol=1e-7, rtol=0)


def test_residual_is_between_zero_and_the_prior_variance():
    kernel, params, X, Z, Lz = _setup(50, 7, seed=2)
    residual = whitened_features(kernel, params, Z, Lz, X).residual
    assert bool((residual >= 0).all())
    assert bool((residual <= kernel.diag(params, X)).all())
    assert float(residual.max()) > 0.1


def test_nothing_is_left_unexplained_at_the_inducing_points():
    kernel, params, _, Z, Lz = _setup(5, 7, seed=4)
    A, residual = whitened_features(kernel, params, Z, Lz, Z)
    torch.testing.assert_close(residual, torch.zeros(7).double(), atol=1e-7, rtol=0)
    torch.testing.assert_close(A, Lz, atol=1e-7, rtol=0)


def test_more_inducing_points_explain_more():
    kernel, params, X, Z, Lz = _setup(40, 8, seed=6)
    fewer = Z[:5]
    small = whitened_features(kernel, params, fewer, inducing_factor(kernel, params, fewer), X).residual
    large = whitened_features(kernel, params, Z, Lz, X).residual
    assert bool((large <= small + 1e-9).all())


def test_features_pass_gradcheck_in_parameters_and_inducing_points():
    kernel, X, Z = RBF(), normal(4, 2, seed=8), normal(3, 2, seed=9).requires_grad_()
    params = {k: v.requires_grad_() for k, v in kernel.init(X).items()}
    names = list(params)

    def features(Z, *values):
        theta = dict(zip(names, values, strict=True))
        return tuple(whitened_features(kernel, theta, Z, inducing_factor(kernel, theta, Z), X))

    assert torch.autograd.gradcheck(features, [Z, *params.values()])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("n", "n_features"), [(50, 3), (5, 8)])
def test_spanning_points_leave_nothing_unexplained(intercept, n, n_features):
    X = normal(n, n_features, seed=3)
    kernel = IsotropicLinear(intercept, variance=2.0)
    params = kernel.init(X)
    Z = spanning_points(intercept)(X, torch.ones(n, dtype=DTYPE), 1)
    assert Z.shape[0] == min(n, n_features + intercept)
    features = whitened_features(kernel, params, Z, inducing_factor(kernel, params, Z), X)
    assert float(features.residual.max()) < 1e-6
    if n > n_features and intercept:  # the features are the rows themselves
        rows = 2.0**0.5 * torch.cat([torch.ones(n, 1, dtype=DTYPE), X], 1)
        torch.testing.assert_close(features.A, rows, atol=1e-6, rtol=1e-6)


KERNELS = [
    RBF(variance=1.5),
    RBF(ard=False),
    Matern32(),
    Matern52(ard=False),
    Sum((RBF(), Anova())),
    Scaled(RBF(), 2.0),
    Sum((Linear(), RBF())),
]


def _leaves(kernel, n=20, p=5, d=3):
    X, Z = normal(n, d, seed=1), normal(p, d, seed=2)
    params = {
        k: (v + 0.2 * normal(v.numel(), seed=3).reshape(v.shape)).requires_grad_()
        for k, v in sorted(kernel.init(X).items())
    }
    return X, Z.requires_grad_(), params


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_features_and_gradients_are_those_of_the_plain_way(kernel):
    X, Z, params = _leaves(kernel)
    by_A, by_residual = normal(20, 5, seed=4), normal(20, seed=5)
    plain = whitened_features(kernel, params, Z, inducing_factor(kernel, params, Z), X)
    ours = DifferentiableFeatures(kernel, params, Z, X)
    torch.testing.assert_close(ours.A, plain.A.detach())
    torch.testing.assert_close(ours.residual, plain.residual.detach())
    leaves = [*params.values(), Z]
    expected = torch.autograd.grad(plain, leaves, (by_A, by_residual))
    for a, b in zip(ours.gradient(leaves, by_A, by_residual), expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def test_residuals_clipped_at_zero_carry_no_gradient():
    X, Z, params = _leaves(RBF(), n=5, p=5)
    X = Z.detach().clone()  # nothing is left to explain at the inducing points
    plain = whitened_features(RBF(), params, Z, inducing_factor(RBF(), params, Z), X)
    ours = DifferentiableFeatures(RBF(), params, Z, X)
    leaves, by = [*params.values(), Z], (normal(5, 5, seed=6), normal(5, seed=7))
    for a, b in zip(ours.gradient(leaves, *by), torch.autograd.grad(plain, leaves, by), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kernel", [RBF(variance=0.7), RBF(ard=False), Matern32(), Matern52()], ids=repr)
def test_stationary_kernels_differentiate_like_their_definition(kernel):
    X, Z, params = _leaves(kernel)
    X = X.requires_grad_()

    def definition():
        scaled = (X[:, None, :] - Z) / params["log_length_scale"].exp()
        return params["log_variance"].exp() * kernel.profile(scaled.square().sum(-1), params)

    torch.testing.assert_close(kernel.cross(params, X, Z), definition())
    leaves, by = [*params.values(), X, Z], normal(20, 5, seed=8)
    ours = torch.autograd.grad(kernel.cross(params, X, Z), leaves, by)
    for a, b in zip(ours, torch.autograd.grad(definition(), leaves, by), strict=True):
        torch.testing.assert_close(a, b, atol=1e-11, rtol=1e-9)


def test_parameters_that_are_not_asked_for_cost_nothing_and_change_nothing():
    X, Z, params = _leaves(RBF())
    by = normal(20, 5, seed=4), normal(20, seed=5)
    fixed = {k: v.detach() for k, v in params.items()}
    everything = DifferentiableFeatures(RBF(), params, Z, X).gradient([Z], *by)
    alone = DifferentiableFeatures(RBF(), fixed, Z, X).gradient([Z], *by)
    torch.testing.assert_close(alone[0], everything[0])
