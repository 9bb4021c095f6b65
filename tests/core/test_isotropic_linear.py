"""The kernel of linear functions with one prior variance (eq. 8.25)."""

import pytest
import torch

from bayesvm._core.features import inducing_factor, whitened_features
from bayesvm._core.kernels.linear import IsotropicLinear
from bayesvm._linear import spanning_points
from tests.problems import DTYPE, normal


@pytest.mark.parametrize("intercept", [True, False])
def test_covariance_of_random_linear_functions(intercept):
    X, Z = normal(6, 3, seed=0), normal(4, 3, seed=1)
    kernel = IsotropicLinear(intercept, variance=0.7)
    params = kernel.init(X)
    one = float(intercept)
    rows = torch.cat([X, torch.full((6, 1), one, dtype=DTYPE)], 1)
    points = torch.cat([Z, torch.full((4, 1), one, dtype=DTYPE)], 1)
    torch.testing.assert_close(kernel.cross(params, X, Z), 0.7 * rows @ points.mT)
    torch.testing.assert_close(kernel.diag(params, X), kernel.cross(params, X, X).diagonal())
    torch.testing.assert_close(kernel.relevance(params, 3), torch.full((3,), 0.7, dtype=DTYPE))


def test_start_gives_functions_a_variance_of_one():
    X = 5.0 * normal(200, 3, seed=2)
    kernel = IsotropicLinear()
    assert float(kernel.diag(kernel.init(X), X).mean()) == pytest.approx(1.0)


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
