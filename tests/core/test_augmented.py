"""The augmented row term against one rival (eqs. 2.1, 2.3, 3.2, 3.3)."""

import pytest
import torch

from bayesvm._core.likelihoods import AugmentedBinaryHinge, BinaryHinge, pair_bound
from tests.problems import normal, uniform


def _pair(n, seed, low=0.02, high=2.0):
    """Means and variances of own class and rival, shape (n, 2)."""
    F = 2.0 * normal(2, n, seed=seed)
    return F.mT, uniform(2, n, seed=seed + 1, low=low, high=high).mT


def _shortfall(F):
    return 1.0 + F[:, 1] - F[:, 0]


def _fixed_rival_expectation(F, s2):
    b, s = _shortfall(F), s2.sum(1).sqrt()
    normal_ = torch.distributions.Normal(torch.zeros((), dtype=b.dtype), 1.0)
    z = b / s
    return -2.0 * (s * normal_.log_prob(z).exp() + b * normal_.cdf(z))


def test_value_is_the_best_over_local_parameters():
    F, s2 = _pair(40, seed=0)
    b = _shortfall(F)
    A = b.square() + s2.sum(1)
    value = pair_bound(F, s2).value
    root = torch.logspace(-3, 3, 8001, dtype=torch.float64)[:, None]
    over_alpha = -A / (2 * root) - root / 2 - b
    torch.testing.assert_close(value, over_alpha.amax(0), atol=3e-5, rtol=0)
    assert bool((value >= over_alpha.amax(0)).all())


def test_value_is_below_the_exact_expectation_and_not_far_below():
    F, s2 = _pair(500, seed=2)
    exact, bound = _fixed_rival_expectation(F, s2), pair_bound(F, s2).value
    assert bool((bound <= exact).all())
    # In units of s the gap is sqrt(z^2 + 1) + z - 2 phi(z) - 2 z Phi(z), at most .2499.
    gap = (exact - bound) / s2.sum(1).sqrt()
    assert 0.24 < float(gap.max()) < 0.2499


def test_value_is_the_hinge_itself_at_zero_variance():
    F, _ = _pair(100, seed=4)
    value = pair_bound(F, torch.zeros_like(F)).value
    torch.testing.assert_close(value, -2.0 * _shortfall(F).clamp_min(0.0), atol=1e-14, rtol=0)


def test_slope_and_precision_are_the_derivatives_of_the_value():
    F, s2 = (t.requires_grad_() for t in _pair(50, seed=6))
    value, slope, W = pair_bound(F, s2)
    by_F, by_s2 = torch.autograd.grad(value.sum(), [F, s2])
    torch.testing.assert_close(by_F, slope)
    torch.testing.assert_close(-2.0 * by_s2, W)


def test_sites_against_a_rival_are_those_of_the_paper():
    F, s2 = _pair(50, seed=6)
    _, slope, W = pair_bound(F, s2)
    w = (_shortfall(F).square() + s2.sum(1)).rsqrt()
    torch.testing.assert_close(W, torch.stack([w, w], 1))
    G = torch.stack([w * (1.0 + F[:, 1]) + 1.0, -(w * (1.0 - F[:, 0]) + 1.0)], 1)
    torch.testing.assert_close(slope + W * F, G)


def test_augmented_binary_hinge_is_a_pair_whose_difference_is_the_latent():
    F, s2 = _pair(30, seed=8)
    y = torch.arange(30) % 2
    sign = (2 * y - 1).double()
    difference = sign * (F[:, 0] - F[:, 1])  # b = 1 - sign * difference
    terms = AugmentedBinaryHinge().row_terms(y, difference[:, None], s2.sum(1, keepdim=True))
    torch.testing.assert_close(terms.value, pair_bound(F, s2).value)


def test_augmented_binary_sites_are_those_of_polson_and_scott():
    y = torch.arange(20) % 2
    sign = (2 * y - 1).double()[:, None]
    F, s2 = normal(20, 1, seed=9), uniform(20, 1, seed=10, low=0.1)
    terms = AugmentedBinaryHinge().row_terms(y, F, s2)
    w = ((1.0 - sign * F).square() + s2).rsqrt()
    torch.testing.assert_close(terms.W, w)
    torch.testing.assert_close(terms.slope + terms.W * F, sign * (w + 1.0))


@pytest.mark.parametrize("seed", [11, 12])
def test_augmented_binary_hinge_is_below_the_exact_one(seed):
    y = torch.arange(200) % 2
    F, s2 = 2 * normal(200, 1, seed=seed), uniform(200, 1, seed=seed + 50, low=1e-3, high=3.0)
    gap = BinaryHinge().row_terms(y, F, s2).value - AugmentedBinaryHinge().row_terms(y, F, s2).value
    assert bool((gap >= 0).all())
    assert float(gap.max()) > 0.01
