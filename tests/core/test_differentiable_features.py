"""Closed-form derivatives of features and kernels against autograd of the plain formulas."""

import pytest
import torch

from bayesvm._core.features import DifferentiableFeatures, inducing_factor, whitened_features
from bayesvm._core.kernels import RBF, AdditiveRBF, Linear, Matern32, Matern52, Sum
from bayesvm._core.kernels.compose import Scaled
from tests.problems import normal

KERNELS = [
    RBF(variance=1.5),
    RBF(ard=False),
    Matern32(),
    Matern52(ard=False),
    Sum((RBF(), AdditiveRBF())),
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
        return params["log_variance"].exp() * kernel.profile(scaled.square().sum(-1))

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
