"""The exact expectation of the binary hinge (eq. 4.3)."""

import pytest
import torch

from bayesvm._core.likelihoods import BinaryHinge, MulticlassHinge, expected
from tests.problems import normal, uniform
from tests.reference import binary_hinge_by_quadrature


@pytest.mark.parametrize("mean", [-2.5, -1.0, 0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("var", [1e-4, 0.09, 1.0, 9.0])
@pytest.mark.parametrize("y", [0, 1])
def test_closed_form_is_quadrature_split_at_the_kink(mean, var, y):
    F, s2 = torch.tensor([[mean]], dtype=torch.float64), torch.tensor([[var]], dtype=torch.float64)
    value = float(BinaryHinge().row_terms(torch.tensor([y]), F, s2).value)
    assert value == pytest.approx(binary_hinge_by_quadrature(2 * y - 1, mean, var), abs=1e-11, rel=1e-11)


def test_sites_are_the_derivatives_of_the_value():
    y = torch.arange(24) % 2
    F = (2 * normal(24, 1, seed=0)).requires_grad_()
    s2 = uniform(24, 1, seed=1, low=0.05, high=2.0).requires_grad_()
    terms = BinaryHinge().row_terms(y, F, s2)
    slope, by_variance = torch.autograd.grad(terms.value.sum(), [F, s2])
    torch.testing.assert_close(terms.slope.detach(), slope)
    torch.testing.assert_close(terms.W.detach(), -2.0 * by_variance)


def test_flipping_label_and_mean_changes_nothing_but_the_sign_of_the_slope():
    F, s2 = normal(10, 1, seed=2), uniform(10, 1, seed=3, low=0.1)
    one, zero = torch.ones(10, dtype=torch.long), torch.zeros(10, dtype=torch.long)
    a, b = BinaryHinge().row_terms(one, F, s2), BinaryHinge().row_terms(zero, -F, s2)
    torch.testing.assert_close(a.value, b.value)
    torch.testing.assert_close(a.slope, -b.slope)
    torch.testing.assert_close(a.W, b.W)


def test_vanishing_variance_gives_the_hinge():
    F = torch.tensor([[-1.0], [0.5], [3.0]]).double()
    s2 = torch.full_like(F, 1e-16)
    y = torch.ones(3, dtype=torch.long)
    value = BinaryHinge().row_terms(y, F, s2).value
    torch.testing.assert_close(value, torch.tensor([-4.0, -1.0, 0.0]).double(), atol=1e-7, rtol=0)


def test_multiclass_hinge_of_two_classes_is_the_binary_hinge_of_the_difference():
    y = torch.arange(60) % 2
    F, s2 = 1.5 * normal(60, 2, seed=4), uniform(60, 2, seed=5, low=0.05)
    pair = MulticlassHinge(n_nodes=64).row_terms(y, F, s2)
    one = BinaryHinge().row_terms(y, F[:, 1:] - F[:, :1], s2.sum(1, keepdim=True))
    torch.testing.assert_close(pair.value, one.value, atol=1e-5, rtol=0)
    torch.testing.assert_close(pair.slope[:, 1:], one.slope, atol=1e-5, rtol=0)
    torch.testing.assert_close(pair.slope[:, :1], -one.slope, atol=1e-5, rtol=0)
    for j in range(2):
        torch.testing.assert_close(pair.W[:, j : j + 1], one.W, atol=1e-5, rtol=0)


@pytest.mark.parametrize("likelihood", [BinaryHinge(), MulticlassHinge(n_nodes=200)])
def test_expected_value_passes_gradcheck(likelihood):
    n_latents = likelihood.n_latents(3)
    y = torch.tensor([0, 1, 1, 0])
    F = normal(4, n_latents, seed=6).requires_grad_()
    s2 = uniform(4, n_latents, seed=7, low=0.2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda F, s2: expected(likelihood, y, F, s2).value, [F, s2], atol=2e-5, rtol=1e-4
    )
