"""The exact expected Crammer-Singer hinge (eqs. 4.1, 4.2)."""

import numpy as np
import pytest
import torch

from bayesvm._core.likelihoods import MulticlassHinge, pair_bound
from tests.problems import moments
from tests.reference import (
    multiclass_hinge_by_quadrature,
    multiclass_hinge_by_sampling,
    multiclass_hinge_on_fine_grid,
)

LIKELIHOOD = MulticlassHinge()


@pytest.mark.parametrize("n_classes", [2, 3, 7, 20])
def test_value_is_the_adaptive_quadrature(n_classes):
    y, F, s2 = moments(12, n_classes, seed=n_classes)
    value = LIKELIHOOD.row_terms(y, F, s2).value.numpy()
    reference = [
        multiclass_hinge_by_quadrature(int(y[n]), F[n].numpy(), s2[n].numpy()) for n in range(len(y))
    ]
    np.testing.assert_allclose(value, reference, atol=2e-5)


def test_error_falls_with_the_number_of_nodes_to_the_window_s_tail():
    y, F, s2 = moments(40, 5, seed=30)
    truth = multiclass_hinge_on_fine_grid(y, F, s2)
    errors = [
        float((MulticlassHinge(n).row_terms(y, F, s2).value - truth).abs().max()) for n in (8, 12, 24, 96)
    ]
    assert errors[0] > 5 * errors[1] > 100 * errors[2]
    assert errors[3] < 1e-5  # what lies beyond five standard deviations


def test_value_is_within_sampling_error_of_monte_carlo():
    y, F, s2 = moments(4, 6, seed=40)
    value = LIKELIHOOD.row_terms(y, F, s2).value
    for n in range(4):
        mean, error = multiclass_hinge_by_sampling(int(y[n]), F[n].numpy(), s2[n].numpy(), 400_000, seed=n)
        assert float(value[n]) == pytest.approx(mean, abs=4.5 * error)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_slopes_and_site_precisions_are_derivatives_of_a_fine_quadrature(n_classes):
    y, F, s2 = moments(15, n_classes, seed=50 + n_classes)
    F, s2 = F.requires_grad_(), s2.requires_grad_()
    slope, by_variance = torch.autograd.grad(multiclass_hinge_on_fine_grid(y, F, s2).sum(), [F, s2])
    terms = MulticlassHinge(n_nodes=64).row_terms(y, F.detach(), s2.detach())
    torch.testing.assert_close(terms.slope, slope, atol=5e-6, rtol=0)
    torch.testing.assert_close(terms.W, -2.0 * by_variance, atol=5e-5, rtol=0)
    # The 24 nodes that fits use are less exact, but exact enough for sites.
    terms = LIKELIHOOD.row_terms(y, F.detach(), s2.detach())
    torch.testing.assert_close(terms.slope, slope, atol=1e-4, rtol=0)
    torch.testing.assert_close(terms.W, -2.0 * by_variance, atol=2e-3, rtol=0)


def test_slopes_sum_to_zero_because_only_differences_matter():
    y, F, s2 = moments(50, 8, seed=60)
    slope = LIKELIHOOD.row_terms(y, F, s2).slope
    torch.testing.assert_close(slope.sum(1), torch.zeros(50).double(), atol=1e-12, rtol=0)


def test_a_common_shift_changes_nothing():
    y, F, s2 = moments(30, 4, seed=61)
    a, b = LIKELIHOOD.row_terms(y, F, s2), LIKELIHOOD.row_terms(y, F + 7.5, s2)
    for left, right in zip(a, b, strict=True):
        torch.testing.assert_close(left, right, atol=1e-10, rtol=0)


def test_permuting_the_rivals_permutes_the_sites():
    y, F, s2 = moments(20, 5, seed=62)
    y = torch.zeros_like(y)
    order = torch.tensor([0, 3, 1, 4, 2])
    a = LIKELIHOOD.row_terms(y, F, s2)
    b = LIKELIHOOD.row_terms(y, F[:, order], s2[:, order])
    torch.testing.assert_close(a.value, b.value)
    torch.testing.assert_close(a.slope[:, order], b.slope)
    torch.testing.assert_close(a.W[:, order], b.W)


def test_site_precisions_are_never_negative_even_for_hopeless_rivals():
    y, F, s2 = moments(50, 6, seed=63)
    F[:, 5] = -60.0
    y[y == 5] = 0
    terms = LIKELIHOOD.row_terms(y, F, s2)
    assert all(bool(torch.isfinite(t).all()) for t in terms)
    assert bool((terms.W >= 0).all())
    torch.testing.assert_close(terms.W[:, 5], torch.zeros(50).double(), atol=1e-12, rtol=0)


def test_small_variances_give_the_hinge_at_the_means():
    y, F, _ = moments(40, 4, seed=64)
    own = torch.nn.functional.one_hot(y, 4).bool()
    b = 1.0 + F.masked_fill(own, -torch.inf).amax(1) - F[own]
    value = LIKELIHOOD.row_terms(y, F, torch.full_like(F, 1e-10)).value
    torch.testing.assert_close(value, -2.0 * b.clamp_min(0.0), atol=2e-4, rtol=0)


def test_value_is_at_most_that_of_any_single_rival():
    # max over rivals >= any one rival, so more rivals can only cost.
    y, F, s2 = moments(40, 5, seed=65)
    value = MulticlassHinge(n_nodes=96).row_terms(y, F, s2).value
    for rival in range(5):
        rows = y != rival
        pair = torch.stack([y[rows], torch.full_like(y[rows], rival)], 1)
        two = MulticlassHinge(n_nodes=96).row_terms(
            torch.zeros(int(rows.sum()), dtype=torch.long), F[rows].gather(1, pair), s2[rows].gather(1, pair)
        )
        assert bool((value[rows] <= two.value + 5e-6).all())


def test_scoring_one_rival_at_the_mean_is_no_bound_on_the_exact_value():
    # Taking the rival at the mean ignores E max > max E: with many equal rivals it overstates.
    n_classes = 30
    y = torch.zeros(1, dtype=torch.long)
    F, s2 = torch.zeros(1, n_classes).double(), torch.ones(1, n_classes).double()
    exact = LIKELIHOOD.row_terms(y, F, s2).value
    one = pair_bound(F[:, :2], s2[:, :2]).value
    assert float(one) > float(exact) + 1.0


@pytest.mark.parametrize(("n_nodes", "ratio"), [(24, 2.0), (24, 4.0), (96, 16.0)])
def test_unequal_spreads_need_nodes_in_proportion(n_nodes, ratio):
    """The step is 10 s_max / nodes, so an uncertain rival coarsens the grid for the certain ones."""
    F = torch.tensor([[0.5, 1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    s2 = torch.tensor([[0.09, 0.01, 0.01 * ratio**2]], dtype=torch.float64, requires_grad=True)
    y = torch.zeros(1, dtype=torch.long)
    truth = multiclass_hinge_on_fine_grid(y, F, s2, 40001)
    slope, by_variance = torch.autograd.grad(truth.sum(), [F, s2])
    terms = MulticlassHinge(n_nodes).row_terms(y, F.detach(), s2.detach())
    torch.testing.assert_close(terms.value, truth.detach(), atol=1e-3, rtol=0)
    torch.testing.assert_close(terms.slope, slope, atol=2e-3, rtol=0)
    torch.testing.assert_close(terms.W, -2.0 * by_variance, atol=0.02, rtol=0)
