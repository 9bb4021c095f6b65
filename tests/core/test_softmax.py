"""The softmax likelihood in exact expectation (eqs. 8.13, 8.14)."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, special

from bayesvm._core.likelihoods import ProperLikelihood, Softmax
from bayesvm._core.predictive import margins_at_nodes, predictive_moments
from tests.problems import labels, moments, normal, uniform

LIKELIHOOD = Softmax()


def product_rule(y, F, s2, n_nodes=24):
    """E log softmax_y on a grid over all latents at once, differentiable by autograd."""
    C = F.shape[1]
    z, w = np.polynomial.hermite_e.hermegauss(n_nodes)
    grid = torch.tensor(list(itertools.product(z, repeat=C)))
    weight = torch.tensor([math.prod(p) for p in itertools.product(w / w.sum(), repeat=C)])
    f = F[:, None, :] + s2.sqrt()[:, None, :] * grid
    own = y[:, None, None].expand(-1, f.shape[1], 1)
    return torch.log_softmax(f, 2).gather(2, own)[..., 0] @ weight


def sampled(y, F, s2, n, seed):
    """Means over draws of log p_y, p and p (1 - p), with their standard errors."""
    rng = np.random.default_rng(seed)
    f = F.numpy() + np.sqrt(s2.numpy()) * rng.standard_normal((n, len(F)))
    log_p = special.log_softmax(f, axis=1)
    p = np.exp(log_p)
    return [(a.mean(0), a.std(0) / math.sqrt(n)) for a in (log_p[:, y], p, p * (1.0 - p))]


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
def test_value_and_derivatives_are_those_of_a_product_rule(spread):
    y, F, _ = moments(8, 3, seed=1)
    s2 = (spread * uniform(8, 3, seed=2, low=0.7, high=1.3)).square()
    F, s2 = F.requires_grad_(), s2.requires_grad_()
    truth = product_rule(y, F, s2, 32)
    slope, by_variance = torch.autograd.grad(truth.sum(), [F, s2])
    terms = LIKELIHOOD.row_terms(y, F.detach(), s2.detach())
    torch.testing.assert_close(terms.value, truth.detach(), atol=2e-5, rtol=0)
    torch.testing.assert_close(terms.slope, slope, atol=2e-5, rtol=0)
    torch.testing.assert_close(terms.W, -2.0 * by_variance, atol=3e-5, rtol=0)


@pytest.mark.parametrize("n_classes", [3, 10, 40])
def test_value_and_derivatives_are_sampled_ones(n_classes):
    y, F, s2 = moments(4, n_classes, seed=n_classes)
    value, slope, W = LIKELIHOOD.row_terms(y, F, 3.0 * s2)
    own = torch.nn.functional.one_hot(y, n_classes)
    for n in range(4):
        draws = sampled(int(y[n]), F[n], 3.0 * s2[n], 200_000, seed=n)
        for ours, (mean, error) in zip((value[n], own[n] - slope[n], W[n]), draws, strict=True):
            assert np.all(np.abs(ours.numpy() - mean) <= 4.5 * error + 2e-6)


def test_error_falls_with_the_number_of_nodes():
    y, F, s2 = moments(60, 6, seed=3)
    wide = 9.0 * s2
    truth = Softmax(201).row_terms(y, F, wide)
    errors = [
        [float((a - b).abs().max()) for a, b in zip(Softmax(n).row_terms(y, F, wide), truth, strict=True)]
        for n in (9, 13, 17, 33)
    ]
    assert all(
        b < 0.3 * a for fine, coarse in itertools.pairwise(errors[::-1]) for a, b in [(coarse[2], fine[2])]
    )
    assert max(errors[2]) < 1e-4
    assert max(errors[3]) < 3e-5


def test_a_standard_deviation_of_five_costs_digits():
    y, F, _ = moments(60, 4, seed=4)
    s2 = torch.full_like(F, 25.0)
    truth = Softmax(201).row_terms(y, F, s2)
    for ours, exact in zip(LIKELIHOOD.row_terms(y, F, s2), truth, strict=True):
        torch.testing.assert_close(ours, exact, atol=5e-3, rtol=0)


def test_quasi_random_nodes_are_far_less_accurate():
    """What class probabilities use is not enough for a likelihood whose derivatives must agree."""
    y, F, s2 = moments(100, 10, seed=5)
    truth = Softmax(101).row_terms(y, F, s2).value
    margins, w = margins_at_nodes(F, s2, y, 128)
    by_nodes = -torch.logsumexp(margins, 0) @ w
    ours = float((LIKELIHOOD.row_terms(y, F, s2).value - truth).abs().max())
    assert 500 * ours < float((by_nodes - truth).abs().max())


def test_derivatives_agree_with_one_another():
    """A step along slope and W changes the value as they say: the bound that is watched can rise."""
    y, F, s2 = moments(50, 5, seed=6)
    _, slope, W = LIKELIHOOD.row_terms(y, F, s2)
    dF, ds2 = normal(50, 5, seed=7), 0.3 * s2 * normal(50, 5, seed=8)
    h = 1e-3
    up, down = (LIKELIHOOD.row_terms(y, F + e * dF, s2 + e * ds2).value for e in (h, -h))
    predicted = (slope * dF - 0.5 * W * ds2).sum(1)
    torch.testing.assert_close((up - down) / (2 * h), predicted, atol=2e-5, rtol=0)
    assert bool((W >= 0).all())
    torch.testing.assert_close(slope.sum(1), torch.zeros(50).double(), atol=2e-6, rtol=0)


def test_two_classes_are_one_function_of_their_difference():
    y = labels(12, 2, seed=9)
    F, s2 = 2.0 * normal(12, 1, seed=10), uniform(12, 1, seed=11, low=0.1, high=4.0)
    assert LIKELIHOOD.n_latents(2) == 1
    assert LIKELIHOOD.n_latents(3) == 3
    terms = LIKELIHOOD.row_terms(y, F, s2)
    for n in range(12):
        sign, mean, s = 2 * int(y[n]) - 1, float(F[n]), math.sqrt(float(s2[n]))

        def expectation(of, sign=sign, mean=mean, s=s):
            def integrand(z):
                return of(sign * (mean + s * z)) * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)

            return integrate.quad(integrand, -10, 10, epsabs=1e-12)[0]

        assert float(terms.value[n]) == pytest.approx(expectation(special.log_expit), abs=5e-6)
        assert float(terms.slope[n, 0]) == pytest.approx(
            sign * expectation(lambda g: special.expit(-g)), abs=5e-6
        )
        curvature = expectation(lambda g: special.expit(g) * special.expit(-g))
        assert float(terms.W[n, 0]) == pytest.approx(curvature, abs=2e-5)


def test_certain_latents_give_the_softmax_itself_up_to_the_rule_over_x():
    """The error of a step of log 2 is |Gamma(1 + 2 pi i / log 2)| = 5e-6, and 2 pi / log 2 as much for W."""
    y, F, _ = moments(30, 5, seed=12)
    value, slope, W = LIKELIHOOD.row_terms(y, F, torch.full_like(F, 1e-10))
    p = torch.softmax(F, 1)
    torch.testing.assert_close(value, torch.log_softmax(F, 1).gather(1, y[:, None])[:, 0], atol=2e-6, rtol=0)
    torch.testing.assert_close(slope, torch.nn.functional.one_hot(y, 5) - p, atol=1e-5, rtol=0)
    torch.testing.assert_close(W, p * (1.0 - p), atol=9e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_everything_is_finite_at_the_ends(dtype):
    F = torch.tensor([[0.0, 1.0, 2.0], [1e4, 0.0, -1e4], [-300.0, 0.0, 300.0]], dtype=dtype)
    y = torch.tensor([0, 1, 2])
    for variance in (1e-12, 1.0, 1e4):
        terms = LIKELIHOOD.row_terms(y, F, torch.full_like(F, variance))
        assert all(bool(torch.isfinite(t).all()) for t in terms)
        assert all(t.dtype == dtype for t in terms)
        proba, aleatoric = LIKELIHOOD.probabilities(F, torch.full_like(F, variance))
        torch.testing.assert_close(proba.sum(1), torch.ones(3, dtype=dtype))
        assert bool((aleatoric >= 0).all())
    torch.testing.assert_close(
        float(LIKELIHOOD.row_terms(y, F, torch.ones_like(F)).value[1]), -1e4, atol=1.0, rtol=0
    )


def test_rows_do_not_depend_on_their_batch_and_there_may_be_none():
    y, F, s2 = moments(40, 4, seed=13)
    s2[0] = 60.0  # a row that needs a wide window
    together = LIKELIHOOD.row_terms(y, F, s2)
    for n in (0, 1, 39):
        alone = LIKELIHOOD.row_terms(y[n : n + 1], F[n : n + 1], s2[n : n + 1])
        for a, b in zip(alone, together, strict=True):
            torch.testing.assert_close(a[0], b[n], atol=1e-9, rtol=0)
    assert LIKELIHOOD.row_terms(y[:0], F[:0], s2[:0]).slope.shape == (0, 4)


def test_a_common_shift_changes_nothing():
    y, F, s2 = moments(20, 4, seed=14)
    assert LIKELIHOOD.shift_invariant
    for a, b in zip(LIKELIHOOD.row_terms(y, F, s2), LIKELIHOOD.row_terms(y, F + 50.0, s2), strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


@pytest.mark.parametrize("n_classes", [2, 3, 8])
def test_probabilities_and_entropies_are_those_of_lattices(n_classes):
    _, F, s2 = moments(30, n_classes, seed=15)
    ours = LIKELIHOOD.probabilities(F, 2.0 * s2)
    theirs = predictive_moments(F, 2.0 * s2, 1.0)
    torch.testing.assert_close(ours.proba, theirs.proba, atol=1e-4, rtol=0)
    torch.testing.assert_close(ours.aleatoric, theirs.aleatoric, atol=3e-4, rtol=0)
    assert bool((ours.aleatoric <= torch.special.entr(ours.proba).sum(1) + 1e-12).all())


def test_values_at_points():
    y, F, _ = moments(10, 4, seed=16)
    f = torch.stack([F, F + 1.0, 2.0 * F])
    assert isinstance(LIKELIHOOD, ProperLikelihood)
    conditional = LIKELIHOOD.conditional(f)
    torch.testing.assert_close(conditional.sum(-1), torch.ones(3, 10).double())
    own = y.expand(3, 10)[..., None]
    torch.testing.assert_close(LIKELIHOOD.log_likelihood(y, f), conditional.gather(-1, own)[..., 0].log())
    g = normal(5, 1, seed=17)
    torch.testing.assert_close(LIKELIHOOD.conditional(g)[:, 1], torch.sigmoid(g[:, 0]))
    torch.testing.assert_close(
        LIKELIHOOD.log_likelihood(torch.ones(5, dtype=torch.long), g), torch.nn.functional.logsigmoid(g[:, 0])
    )
