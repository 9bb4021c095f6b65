"""Which latent is largest: probabilities and the tail of the variation ratio (eqs. 6.1-6.3)."""

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate, special

from bayesvm._core.variation_ratio import argmax_probability, log_variation_ratio
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


@pytest.mark.parametrize("n_rivals", [60, 1000])
@pytest.mark.parametrize("gap", [4.0, 5.0, 6.0, 8.0])
def test_every_one_of_many_equal_rivals_counts(n_rivals, gap):
    F = torch.zeros(1, n_rivals + 1, dtype=torch.float64)
    F[0, 0] = gap

    def density(f: float) -> float:
        return float(
            np.exp(-((f - gap) ** 2))
            / np.sqrt(np.pi)
            * -np.expm1(n_rivals * special.log_ndtr(f * np.sqrt(2.0)))
        )

    edges = [gap - 9.0, gap / 2 - 2.0, gap / 2, gap / 2 + 2.0, gap + 9.0]
    truth = sum(
        integrate.quad(density, a, b, epsabs=0.0, epsrel=1e-10)[0] for a, b in itertools.pairwise(edges)
    )
    ours = log_variation_ratio(F, torch.full_like(F, 0.5))
    assert float(ours) == pytest.approx(np.log(truth), abs=1e-8)


@pytest.mark.parametrize("n_classes", [61, 1000])
def test_nothing_jumps_as_a_favourite_leaves_many_rivals_behind(n_classes):
    F = torch.zeros(81, n_classes, dtype=torch.float64)
    F[:, 0] = torch.linspace(0.0, 12.0, 81, dtype=torch.float64)
    s2 = torch.full_like(F, 0.5)
    logs = torch.cat([log_variation_ratio(*part) for part in zip(F.split(9), s2.split(9), strict=True)])
    steps = logs.diff()
    assert bool((steps < 0).all())
    assert float(steps.diff().abs().max()) < 0.1  # slope changes by little from step to step
    direct = 1.0 - argmax_probability(F[:20], s2[:20]).amax(1)
    torch.testing.assert_close(logs[:20], direct.log(), atol=1e-6, rtol=0)


def test_two_rivals_far_apart_that_matter_equally_both_count():
    """A near narrow one and a far broad one: the integrand has two peaks."""
    F = torch.tensor([[10.0, 0.0, -10.0]], dtype=torch.float64)
    s = torch.tensor([[1.0, 0.5, 2.0 * np.sqrt(1.25) * 0.91]], dtype=torch.float64)
    each = [float(special.log_ndtr(-(10.0 - float(F[0, j])) / np.hypot(1.0, float(s[0, j])))) for j in (1, 2)]
    assert abs(each[0] - each[1]) < 3.0
    ours = float(log_variation_ratio(F, s.square()))
    truth = special.logsumexp([_by_quad(j, F[0].numpy(), s[0].numpy()) for j in (1, 2)])
    assert ours == pytest.approx(truth, abs=1e-8)


def test_permuted_classes_have_the_same_ratio():
    _, F, s2 = moments(20, 7, seed=43)
    F[:, 0] += torch.linspace(0.0, 20.0, 20).double()
    order = torch.randperm(7, generator=torch.Generator().manual_seed(0))
    ours = log_variation_ratio(F, s2)
    torch.testing.assert_close(log_variation_ratio(F[:, order], s2[:, order]), ours, rtol=1e-11, atol=1e-11)


def _by_quad(j: int, F: np.ndarray, s: np.ndarray) -> float:
    """Log P(argmax = j), piece by piece between points where some class changes quickly."""
    others = np.arange(len(F)) != j

    def log_density(f: float) -> float:
        own = -0.5 * ((f - F[j]) / s[j]) ** 2 - np.log(s[j] * np.sqrt(2.0 * np.pi))
        return float(own + special.log_ndtr((f - F[others]) / s[others]).sum())

    steps = np.array([-30.0, -14.0, -9.0, -5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0, 9.0, 14.0, 30.0])
    edges = np.unique((F[:, None] + s[:, None] * steps).ravel())
    edges = edges[np.abs(edges - F[j]) <= 30.0 * s[j]]
    height = max(log_density(f) for a, b in itertools.pairwise(edges) for f in np.linspace(a, b, 9))
    pieces = [
        integrate.quad(lambda f: np.exp(log_density(f) - height), a, b, epsabs=1e-13, epsrel=1e-11)[0]
        for a, b in itertools.pairwise(edges)
    ]
    # A class that is never the largest peaks between the points, so narrowly that nothing is seen of it.
    return height + float(np.log(sum(pieces))) if sum(pieces) > 0 else -np.inf


def _unequal(n_classes: int, ratio: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows whose smallest and largest deviations differ by a factor."""
    F = uniform(4, n_classes, seed=seed, low=-0.7, high=0.7)
    s = ratio ** -uniform(4, n_classes, seed=seed + 1, low=0.0, high=1.0)
    s[:, 0], s[:, 1] = 1.0, 1.0 / ratio
    return F, s


@pytest.mark.parametrize("ratio", [3.0, 20.0, 100.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_deviations_of_very_different_size_lose_no_digits(n_classes, ratio):
    F, s = _unequal(n_classes, ratio, seed=70)
    P = argmax_probability(F, s.square())
    truth = np.array(
        [[_by_quad(j, f, d) for j in range(n_classes)] for f, d in zip(F.numpy(), s.numpy(), strict=True)]
    )
    np.testing.assert_allclose(P.numpy(), np.exp(truth), atol=1e-8, rtol=0)
    ratios = special.logsumexp(np.sort(truth, 1)[:, :-1], 1)
    np.testing.assert_allclose(log_variation_ratio(F, s.square()).numpy(), ratios, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("ratio", [20.0, 1e4])
def test_tails_are_right_where_deviations_differ_much(ratio):
    F, s = _unequal(4, ratio, seed=80)
    s[:, 3] = 0.3
    F[:, 3] += torch.tensor([4.0, 8.0, 16.0, 27.0], dtype=torch.float64)
    ours = log_variation_ratio(F, s.square()).numpy()
    truth = [
        special.logsumexp([_by_quad(j, f, d) for j in range(3)])
        for f, d in zip(F.numpy(), s.numpy(), strict=True)
    ]
    assert min(truth) < -300
    np.testing.assert_allclose(ours, truth, atol=1e-8, rtol=1e-9)


def test_many_narrow_classes_beside_a_broad_one():
    """The largest of many is narrower than each of them."""
    F, s = torch.zeros(1, 400, dtype=torch.float64), torch.full((1, 400), 0.2, dtype=torch.float64)
    F[0, 0], s[0, 0] = 0.3, 1.0

    def density(f: float) -> float:
        return float(np.exp(-0.5 * (f - 0.3) ** 2 + 399 * special.log_ndtr(f / 0.2)) / np.sqrt(2.0 * np.pi))

    broad = sum(
        integrate.quad(density, a, b, epsabs=1e-13)[0] for a, b in [(0.0, 0.5), (0.5, 1.0), (1.0, 9.0)]
    )
    P = argmax_probability(F, s.square())
    assert float(P[0, 0]) == pytest.approx(broad, abs=1e-8)
    np.testing.assert_allclose(P[0, 1:].numpy(), (1.0 - broad) / 399, atol=1e-10)


def test_rows_do_not_depend_on_the_rows_beside_them():
    F, s = (torch.cat(t) for t in zip(_unequal(5, 3.0, 90), _unequal(5, 1e3, 92), strict=True))
    together = argmax_probability(F, s.square())
    apart = torch.cat([argmax_probability(f[None], d[None].square()) for f, d in zip(F, s, strict=True)])
    torch.testing.assert_close(together, apart, atol=1e-13, rtol=0)
