"""The augmented row term against one rival (eqs. 2.1, 2.3, 3.2, 3.3)."""

import pytest
import torch

from bayesvm._core.likelihoods import AugmentedBinaryHinge, BinaryHinge, augmented_pair
from tests.problems import normal, uniform


def _pair(n, seed, low=0.02, high=2.0):
    F = 2.0 * normal(2, n, seed=seed)
    s2 = uniform(2, n, seed=seed + 1, low=low, high=high)
    return F[0], F[1], s2[0], s2[1]


def _fixed_rival_expectation(F_y, F_t, s2_y, s2_t):
    b, s = 1.0 + F_t - F_y, (s2_y + s2_t).sqrt()
    normal_ = torch.distributions.Normal(torch.zeros((), dtype=b.dtype), 1.0)
    z = b / s
    return -2.0 * (s * normal_.log_prob(z).exp() + b * normal_.cdf(z))


def test_value_is_the_best_over_local_parameters():
    F_y, F_t, s2_y, s2_t = _pair(40, seed=0)
    b = 1.0 + F_t - F_y
    A = b.square() + s2_y + s2_t
    value = augmented_pair(F_y, F_t, s2_y, s2_t).value
    root = torch.logspace(-3, 3, 8001, dtype=torch.float64)[:, None]
    over_alpha = -A / (2 * root) - root / 2 - b
    torch.testing.assert_close(value, over_alpha.amax(0), atol=3e-5, rtol=0)
    assert bool((value >= over_alpha.amax(0)).all())


def test_value_is_below_the_exact_expectation_and_not_far_below():
    args = _pair(500, seed=2)
    exact, bound = _fixed_rival_expectation(*args), augmented_pair(*args).value
    assert bool((bound <= exact).all())
    # In units of s the gap is sqrt(z^2 + 1) + z - 2 phi(z) - 2 z Phi(z), at most .2499.
    gap = (exact - bound) / (args[2] + args[3]).sqrt()
    assert 0.24 < float(gap.max()) < 0.2499


def test_value_is_the_hinge_itself_at_zero_variance():
    F_y, F_t, _, _ = _pair(100, seed=4)
    zero = torch.zeros_like(F_y)
    value = augmented_pair(F_y, F_t, zero, zero).value
    torch.testing.assert_close(value, -2.0 * (1.0 + F_t - F_y).clamp_min(0.0), atol=1e-14, rtol=0)


def test_general_site_formula_reproduces_the_augmented_sites():
    args = [t.requires_grad_() for t in _pair(50, seed=6)]
    pair = augmented_pair(*args)
    g_Fy, g_Ft, g_sy, g_st = torch.autograd.grad(pair.value.sum(), args)
    F_y, F_t = args[0].detach(), args[1].detach()
    w = pair.w.detach()
    torch.testing.assert_close(-2.0 * g_sy, w)
    torch.testing.assert_close(-2.0 * g_st, w)
    torch.testing.assert_close(g_Fy + w * F_y, pair.G_y.detach())
    torch.testing.assert_close(g_Ft + w * F_t, pair.G_t.detach())


def test_augmented_pair_passes_gradcheck():
    assert torch.autograd.gradcheck(
        lambda *a: augmented_pair(*a).value, [t.requires_grad_() for t in _pair(5, seed=7)]
    )


def test_augmented_binary_hinge_is_a_pair_whose_difference_is_the_latent():
    F_y, F_t, s2_y, s2_t = _pair(30, seed=8)
    y = torch.arange(30) % 2
    sign = (2 * y - 1).double()
    difference = sign * (F_y - F_t)  # b = 1 - sign * difference
    terms = AugmentedBinaryHinge().row_terms(y, difference[:, None], (s2_y + s2_t)[:, None])
    torch.testing.assert_close(terms.value, augmented_pair(F_y, F_t, s2_y, s2_t).value)


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
