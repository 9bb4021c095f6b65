"""The robust-max likelihood: expectations, derivatives of either sign, probabilities (eqs. 8.10-8.12)."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, special

from bayesvm._core.likelihoods import ProperLikelihood, RobustMax
from bayesvm._core.likelihoods.base import collected, per_class_moments
from tests.problems import labels, moments, normal, uniform

EPSILON = 1e-3
LIKELIHOOD = RobustMax()


def levels(n_classes):
    """log p of the largest and of any other class."""
    return math.log(1.0 - EPSILON), math.log(EPSILON / (n_classes - 1))


def by_quadrature(y, F, s2):
    """The expected log-likelihood, adaptively over the latent of the own class."""
    s = np.sqrt(s2)
    others = np.arange(len(F)) != y

    def integrand(x):
        own = math.exp(-0.5 * ((x - F[y]) / s[y]) ** 2) / (s[y] * math.sqrt(2.0 * math.pi))
        return own * math.exp(special.log_ndtr((x - F[others]) / s[others]).sum())

    edges = F[y] + s[y] * np.linspace(-9.0, 9.0, 10)
    P = sum(integrate.quad(integrand, a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(edges))
    right, wrong = levels(len(F))
    return right * P + wrong * (1.0 - P)


def on_fine_grid(y, F, s2, n_nodes=4001):
    """The same by a fine trapezoid, differentiable by autograd."""
    s, own = s2.sqrt(), y[:, None]
    F_y, s_y = F.gather(1, own), s.gather(1, own)
    u = torch.linspace(-9.0, 9.0, n_nodes, dtype=F.dtype)
    centre, width = F_y.detach(), s_y.detach()  # nodes stay where they are
    x = centre + width * u
    density = torch.exp(-0.5 * ((x - F_y) / s_y).square()) / (s_y * math.sqrt(2.0 * math.pi))
    is_own = torch.nn.functional.one_hot(y, F.shape[1]).bool()[:, :, None]
    log_Phi = torch.special.log_ndtr((x[:, None, :] - F[:, :, None]) / s[:, :, None])
    P = torch.trapezoid(density * log_Phi.masked_fill(is_own, 0.0).sum(1).exp(), x, dim=1)
    right, wrong = levels(F.shape[1])
    return right * P + wrong * (1.0 - P)


@pytest.mark.parametrize("n_classes", [3, 7, 20])
def test_value_is_the_adaptive_quadrature(n_classes):
    y, F, s2 = moments(12, n_classes, seed=n_classes)
    value = LIKELIHOOD.row_terms(y, F, s2).value.numpy()
    truth = [by_quadrature(int(y[n]), F[n].numpy(), s2[n].numpy()) for n in range(12)]
    np.testing.assert_allclose(value, truth, atol=1e-4)
    fine = RobustMax(n_nodes=96).row_terms(y, F, s2).value.numpy()
    np.testing.assert_allclose(fine, truth, atol=1e-5)  # what lies beyond five standard deviations


@pytest.mark.parametrize("n_classes", [3, 10])
def test_value_is_the_sampled_one(n_classes):
    y, F, s2 = moments(6, n_classes, seed=30 + n_classes)
    value = LIKELIHOOD.row_terms(y, F, s2).value
    rng = np.random.default_rng(0)
    right, wrong = levels(n_classes)
    for n in range(6):
        f = F[n].numpy() + np.sqrt(s2[n].numpy()) * rng.standard_normal((400_000, n_classes))
        draws = np.where(f.argmax(1) == int(y[n]), right, wrong)
        error = draws.std() / math.sqrt(len(draws))
        assert abs(float(value[n]) - draws.mean()) < 4.0 * error + 1e-5


@pytest.mark.parametrize(("n_nodes", "tolerance"), [(24, 1e-3), (64, 1e-5)])
def test_derivatives_are_those_of_a_fine_grid(n_nodes, tolerance):
    y, F, _ = moments(60, 5, seed=40)
    s2 = uniform(60, 5, seed=41, low=0.2, high=1.5)
    F, s2 = F.requires_grad_(), s2.requires_grad_()
    truth = on_fine_grid(y, F, s2)
    slope, by_variance = torch.autograd.grad(truth.sum(), [F, s2])
    terms = RobustMax(n_nodes=n_nodes).row_terms(y, F.detach(), s2.detach())
    torch.testing.assert_close(terms.value, truth.detach(), atol=tolerance, rtol=0)
    torch.testing.assert_close(terms.slope, slope, atol=tolerance, rtol=0)
    torch.testing.assert_close(terms.W, -2.0 * by_variance, atol=50 * tolerance, rtol=0)
    assert float(terms.W.abs().max()) > 1.0
    # On the wrong side the expectation is convex: it would gain from a larger variance.
    assert bool((terms.W[F.argmax(1) != y] < -0.01).any())
    assert bool((terms.W[F.argmax(1) == y] > 0.01).any())


def test_a_rival_surer_than_the_own_class_costs_digits():
    y, F = torch.zeros(1, dtype=torch.long), torch.tensor([[0.3, 0.5, 0.0]], dtype=torch.float64)
    errors = []
    for ratio in (1.0, 0.5, 0.2, 0.1):
        s2 = torch.tensor([[1.0, ratio**2, 1.0]], dtype=torch.float64)
        errors.append(float((LIKELIHOOD.row_terms(y, F, s2).value - on_fine_grid(y, F, s2)).abs()))
    assert errors[0] < 1e-5
    assert errors[1] < 1e-5
    assert errors[2] < 5e-3
    assert errors[3] < 0.1


def test_slopes_sum_to_zero_and_a_common_shift_changes_nothing():
    y, F, s2 = moments(40, 6, seed=50)
    assert LIKELIHOOD.shift_invariant
    terms, shifted = LIKELIHOOD.row_terms(y, F, s2), LIKELIHOOD.row_terms(y, F + 7.0, s2)
    torch.testing.assert_close(terms.slope.sum(1), torch.zeros(40).double(), atol=1e-12, rtol=0)
    for a, b in zip(terms, shifted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


def test_two_classes_are_one_function_of_their_difference():
    y = labels(20, 2, seed=51)
    F, s2 = normal(20, 1, seed=52), uniform(20, 1, seed=53, low=0.1, high=2.0)
    assert LIKELIHOOD.n_latents(2) == 1
    closed = LIKELIHOOD.row_terms(y, F, s2)
    general = collected(RobustMax(n_nodes=128).row_terms(y, *per_class_moments(F, s2)))
    torch.testing.assert_close(closed.value, general.value, atol=1e-5, rtol=0)
    torch.testing.assert_close(closed.slope, general.slope, atol=1e-4, rtol=0)
    torch.testing.assert_close(closed.W, general.W, atol=2e-3, rtol=0)


def test_rows_without_a_chance_are_silent_and_finite():
    y, F, s2 = moments(10, 4, seed=54)
    F[torch.arange(10), y] = -200.0
    value, slope, W = LIKELIHOOD.row_terms(y, F, s2)
    torch.testing.assert_close(value, torch.full((10,), levels(4)[1], dtype=torch.float64), atol=1e-9, rtol=0)
    assert float(slope.abs().max()) < 1e-9
    assert float(W.abs().max()) < 1e-9
    F[torch.arange(10), y] = 200.0
    value, slope, W = LIKELIHOOD.row_terms(y, F, s2)
    torch.testing.assert_close(value, torch.full((10,), levels(4)[0], dtype=torch.float64), atol=1e-5, rtol=0)
    assert float(slope.abs().max()) < 1e-9
    for variance in (1e-10, 1e6):
        terms = LIKELIHOOD.row_terms(y, F, torch.full_like(s2, variance))
        assert all(bool(torch.isfinite(t).all()) for t in terms)


def test_probabilities_mix_winning_with_errors():
    y, F, s2 = moments(25, 4, seed=55)
    proba, aleatoric = LIKELIHOOD.probabilities(F, s2)
    torch.testing.assert_close(proba.sum(1), torch.ones(25).double())
    # log p(y) is linear in the chance of winning, and so is p(y).
    right, wrong = levels(4)
    P = (RobustMax(n_nodes=128).row_terms(y, F, s2).value - wrong) / (right - wrong)
    expected = (1.0 - EPSILON) * P + EPSILON / 3 * (1.0 - P)
    torch.testing.assert_close(proba.gather(1, y[:, None])[:, 0], expected, atol=1e-5, rtol=0)
    noise = -(1.0 - EPSILON) * right - EPSILON * wrong
    torch.testing.assert_close(aleatoric, torch.full((25,), noise, dtype=torch.float64), atol=1e-12, rtol=0)
    assert bool((torch.special.entr(proba).sum(1) >= aleatoric - 1e-12).all())


def test_values_at_points():
    y = torch.tensor([0, 2])
    f = torch.tensor([[[3.0, 1.0, 2.0], [3.0, 1.0, 2.0]], [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]]).double()
    right, wrong = levels(3)
    assert isinstance(LIKELIHOOD, ProperLikelihood)
    at_points = torch.tensor([[right, wrong], [wrong, right]], dtype=torch.float64)
    torch.testing.assert_close(LIKELIHOOD.log_likelihood(y, f), at_points)
    torch.testing.assert_close(LIKELIHOOD.conditional(f).sum(-1), torch.ones(2, 2).double())
    torch.testing.assert_close(
        LIKELIHOOD.conditional(f).gather(-1, y.expand(2, 2)[..., None])[..., 0].log(),
        LIKELIHOOD.log_likelihood(y, f),
    )
    g = torch.tensor([[-1.0], [2.0]]).double()
    assert LIKELIHOOD.conditional(g).argmax(-1).tolist() == [0, 1]
    one = torch.ones(2, dtype=torch.long)
    torch.testing.assert_close(
        LIKELIHOOD.log_likelihood(one, g), torch.tensor([levels(2)[1], levels(2)[0]], dtype=torch.float64)
    )
