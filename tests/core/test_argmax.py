"""Which latent is largest: probabilities and the tail of the variation ratio (eqs. 6.1-6.3)."""

import numpy as np
import pytest
import torch
from scipy import special

from bayesvm.core.argmax import argmax_probability, log_variation_ratio
from tests import reference
from tests.problems import moments, uniform


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_probability_of_being_largest_is_monte_carlo_s(n_classes):
    _, F, s2 = moments(5, n_classes, seed=n_classes)
    P = argmax_probability(F, s2).numpy()
    rng = np.random.default_rng(0)
    n = 200_000
    for row in range(5):
        f = F[row].numpy() + np.sqrt(s2[row].numpy()) * rng.standard_normal((n, n_classes))
        frequency = np.bincount(f.argmax(1), minlength=n_classes) / n
        np.testing.assert_allclose(P[row], frequency, atol=4.5 * 0.5 / np.sqrt(n))


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_probability_of_being_largest_is_adaptive_quadrature(n_classes):
    _, F, s2 = moments(6, n_classes, seed=20 + n_classes)
    P = argmax_probability(F, s2).numpy()
    for n in range(6):
        truth = [
            np.exp(reference.log_probability_of_winning(j, F[n].numpy(), s2[n].numpy()))
            for j in range(n_classes)
        ]
        np.testing.assert_allclose(P[n], truth, atol=1e-6)


def test_probabilities_sum_to_one_and_are_equal_for_equal_classes():
    _, F, s2 = moments(50, 6, seed=40)
    torch.testing.assert_close(argmax_probability(F, s2).sum(1), torch.ones(50).double())
    equal = argmax_probability(torch.zeros(1, 5).double(), torch.ones(1, 5).double())
    torch.testing.assert_close(equal, torch.full((1, 5), 0.2).double())


def test_two_classes_have_a_closed_form():
    _, F, s2 = moments(50, 2, seed=41)
    z = (F[:, 1] - F[:, 0]) / s2.sum(1).sqrt()
    torch.testing.assert_close(argmax_probability(F, s2)[:, 1], torch.special.ndtr(z), atol=1e-7, rtol=0)


def _confident(n_classes: int, gaps: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One favourite ahead of the others by about ``gaps``."""
    n = gaps.shape[0]
    F = uniform(n, n_classes, seed=seed, low=-0.5, high=0.5)
    F[:, 0] += gaps
    return F, uniform(n, n_classes, seed=seed + 1, low=0.3, high=1.2)


@pytest.mark.parametrize("n_classes", [3, 6])
def test_log_variation_ratio_is_right_far_into_the_tail(n_classes):
    gaps = torch.tensor([0.3, 1.0, 3.0, 6.0, 10.0, 25.0, 60.0, 170.0], dtype=torch.float64)
    F, s2 = _confident(n_classes, gaps, seed=50)
    ours = log_variation_ratio(F, s2).numpy()
    truth = np.array([reference.log_variation_ratio(F[n].numpy(), s2[n].numpy()) for n in range(len(gaps))])
    assert truth.min() < -4000
    np.testing.assert_allclose(ours, truth, atol=2e-4, rtol=0)


def test_log_variation_ratio_of_two_classes_has_a_closed_form():
    gaps = torch.linspace(0.2, 150.0, 80, dtype=torch.float64)
    F, s2 = _confident(2, gaps, seed=60)
    z = ((F[:, 0] - F[:, 1]).abs() / s2.sum(1).sqrt()).numpy()
    truth = special.log_ndtr(-z)
    assert truth.min() < -4000
    np.testing.assert_allclose(log_variation_ratio(F, s2).numpy(), truth, atol=1e-4, rtol=1e-7)


def test_where_the_ratio_underflows_its_logarithm_still_orders_the_rows():
    gaps = torch.linspace(12.0, 100.0, 400, dtype=torch.float64)
    F = torch.zeros(400, 5, dtype=torch.float64)
    F[:, 2] = gaps
    s2 = torch.full_like(F, 0.4)
    ratio = 1.0 - argmax_probability(F, s2).amax(1)
    assert int((ratio.clamp_min(0) == 0).sum()) > 300  # ties that would destroy a ranking
    logs = log_variation_ratio(F, s2)
    assert bool((logs.diff() < 0).all())


def test_logarithm_and_ratio_agree_where_both_are_representable_and_at_the_seam():
    gaps = torch.linspace(0.0, 6.0, 600, dtype=torch.float64)
    F = torch.zeros(600, 4, dtype=torch.float64)
    F[:, 1] = gaps
    s2 = torch.full_like(F, 0.5)
    direct = 1.0 - argmax_probability(F, s2, n_nodes=400).amax(1)
    logs = log_variation_ratio(F, s2)
    torch.testing.assert_close(logs.exp(), direct, atol=1e-8, rtol=1e-4)
    assert bool((logs.diff() < 0).all())


def test_many_classes_count_beyond_the_nearest_rivals_when_the_ratio_is_large():
    F, s2 = torch.zeros(1, 50).double(), torch.ones(1, 50).double()
    assert float(log_variation_ratio(F, s2)) == pytest.approx(np.log(49 / 50), abs=1e-6)
