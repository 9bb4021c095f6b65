"""The hinges at points: envelope, EM's site, smoothing and duals (eqs. 8.20 to 8.23)."""

import numpy as np
import pytest
import torch
from scipy import optimize

from bayesvm._core.likelihoods import CrammerSingerMode, HingeMode, MulticlassHinge, OneVsRest
from tests.problems import DTYPE, labels, normal, uniform

MARGINS = [-3.0, -0.4, 0.0, 0.3, 0.9, 1.7, 6.0]


def _row(y: int, mean: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([y]), torch.tensor([[mean]], dtype=DTYPE)


def _value(y: int, mean: float, k: float) -> float:
    label, F = _row(y, mean)
    return float(HingeMode().at(label, F, torch.tensor([k], dtype=DTYPE)))


@pytest.mark.parametrize("mean", MARGINS)
@pytest.mark.parametrize("k", [1e-3, 0.2, 1.5])
@pytest.mark.parametrize("y", [0, 1])
def test_envelope_is_the_best_latent_by_brute_force(mean, k, y):
    sign = 2 * y - 1

    def loss(f: float) -> float:
        return (f - mean) ** 2 / (2.0 * k) + 2.0 * max(0.0, 1.0 - sign * f)

    # the kink is a candidate, and on either side the loss is smooth
    smooth = [
        optimize.minimize_scalar(loss, bounds=b, method="bounded", options={"xatol": 1e-12})
        for b in ((-20.0, float(sign)), (float(sign), 20.0))
    ]
    best = min(loss(float(sign)), *(s.fun for s in smooth))
    assert -_value(y, mean, k) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("mean", MARGINS)
def test_without_residual_it_is_the_hinge(mean):
    label, F = _row(1, mean)
    assert _value(1, mean, 0.0) == -2.0 * max(0.0, 1.0 - mean)
    terms = HingeMode().row_terms(label, F, torch.zeros(1, 1, dtype=DTYPE))
    assert float(terms.value) == -2.0 * max(0.0, 1.0 - mean)


def test_weight_is_that_many_observations_of_one_latent():
    k, c = 0.3, 4.0
    for mean in MARGINS:
        found = optimize.minimize_scalar(
            lambda f, m=mean: (f - m) ** 2 / (2.0 * k) + 2.0 * c * max(0.0, 1.0 - f),
            bounds=(-20, 20),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert -c * _value(1, mean, c * k) == pytest.approx(found.fun, abs=1e-5)


@pytest.mark.parametrize("k", [0.0, 0.05, 0.7])
def test_site_of_em_touches_the_likelihood_and_stays_below_it(k):
    y, F = torch.arange(60) % 2, 2.0 * normal(60, 1, seed=0)
    s2 = torch.full_like(F, k)
    terms = HingeMode().row_terms(y, F, s2)
    torch.testing.assert_close(terms.value, HingeMode().at(y, F, s2[:, 0])[:, 0])
    for shift in (-2.0, -0.1, 0.05, 1.0, 3.0):
        minorant = terms.value + (terms.slope * shift - 0.5 * terms.W * shift**2)[:, 0]
        assert bool((minorant <= HingeMode().at(y, F + shift, s2[:, 0])[:, 0] + 1e-9).all())


def test_slope_of_em_beyond_the_envelope_is_two():
    y, F = torch.tensor([1, 0]), torch.tensor([[-1.0], [1.0]], dtype=DTYPE)
    terms = HingeMode().row_terms(y, F, torch.full((2, 1), 0.4, dtype=DTYPE))
    torch.testing.assert_close(terms.slope, torch.tensor([[2.0], [-2.0]], dtype=DTYPE))


def test_one_against_the_rest_is_a_column_each():
    y, F = labels(30, 3, seed=1), normal(30, 3, seed=2)
    s2 = uniform(30, 1, seed=3).expand(-1, 3)
    wrapped = OneVsRest(HingeMode()).row_terms(y, F, s2)
    direct = HingeMode().row_terms(y, F, s2)
    for a, b in zip(wrapped, direct, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("k", [1e-6, 0.002, 0.05, 0.4, 30.0])
@pytest.mark.parametrize("width", [1e-4, 0.1, 2.0])
@pytest.mark.parametrize("mean", MARGINS)
def test_smoothing_is_the_envelope_of_a_softplus(mean, width, k):
    label, F = _row(1, mean)
    terms = HingeMode().smoothed(label, F, torch.tensor([k], dtype=DTYPE), torch.tensor([width], dtype=DTYPE))

    def loss(shift: float) -> float:
        softplus = float(np.logaddexp(0.0, (1.0 - mean - shift) / width))
        return shift * shift / (2.0 * k) + 2.0 * width * softplus

    found = optimize.minimize_scalar(loss, bounds=(0.0, 2.0 * k), method="bounded", options={"xatol": 1e-13})
    assert -float(terms.value) == pytest.approx(found.fun, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("k", [0.0, 0.001, 0.3])
def test_slope_and_curvature_are_derivatives(k):
    y = torch.arange(40) % 2
    F = 1.5 * normal(40, 1, seed=4)
    residual, width = torch.full((40,), k, dtype=DTYPE), torch.tensor([0.2], dtype=DTYPE)
    terms = HingeMode().smoothed(y, F, residual, width)
    step = 1e-4
    above, below = (HingeMode().smoothed(y, F + d, residual, width) for d in (step, -step))
    torch.testing.assert_close(terms.slope, (above.value - below.value) / (2 * step), atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(
        terms.curvature, (below.slope - above.slope) / (2 * step), atol=1e-6, rtol=1e-6
    )


def test_smoothed_hinge_is_crammer_and_singers_with_two_classes():
    y, f = torch.arange(20) % 2, normal(20, 2, seed=5)
    zero, width = torch.zeros(20, dtype=DTYPE), torch.tensor([0.3], dtype=DTYPE)
    one = HingeMode().smoothed(y, f[:, 1:] - f[:, :1], zero, width)
    two = CrammerSingerMode().smoothed(y, f, zero, width)
    torch.testing.assert_close(one.value, two.value)
    torch.testing.assert_close(one.slope, two.slope[:, 1:])
    torch.testing.assert_close(one.curvature, two.curvature[:, 1:])


# ---------------------------------------------------------------- Crammer-Singer


def test_crammer_singer_at_points_is_the_multiclass_hinge():
    y, F = labels(50, 4, seed=6), 1.5 * normal(50, 4, seed=7)
    at = CrammerSingerMode().at(y, F, torch.zeros(50, dtype=DTYPE))
    torch.testing.assert_close(at[:, 0], MulticlassHinge().log_likelihood(y, F))


def test_crammer_singer_hessian_is_autograds():
    y, F = labels(12, 4, seed=8), normal(12, 4, seed=9)
    zero, width = torch.zeros(1, dtype=DTYPE), torch.tensor([0.3], dtype=DTYPE)
    mode = CrammerSingerMode()
    for n in range(12):

        def value(f, n=n):
            return mode.smoothed(y[n : n + 1], f[None], zero, width).value.sum()

        terms = mode.smoothed(y[n : n + 1], F[n : n + 1], zero, width)
        (slope,) = torch.autograd.grad(value(f := F[n].clone().requires_grad_()), f)
        torch.testing.assert_close(terms.slope[0], slope)
        hessian = -torch.autograd.functional.hessian(value, F[n])
        torch.testing.assert_close(terms.bent(torch.eye(4, dtype=DTYPE)), hessian)
        torch.testing.assert_close(terms.curvature[0], hessian.diagonal())


def test_tied_rivals_share_the_slope():
    y, F = torch.tensor([0]), torch.tensor([[0.0, 1.0, 1.0, -5.0]], dtype=DTYPE)
    terms = CrammerSingerMode().smoothed(y, F, torch.zeros(1, dtype=DTYPE), torch.tensor([1e-3], dtype=DTYPE))
    torch.testing.assert_close(terms.slope, torch.tensor([[2.0, -1.0, -1.0, 0.0]], dtype=DTYPE))


# ---------------------------------------------------------------- both


@pytest.mark.parametrize(
    ("mode", "n_latents", "k"),
    [(HingeMode(), 1, 0.0), (HingeMode(), 1, 0.3), (HingeMode(), 3, 0.3), (CrammerSingerMode(), 3, 0.0)],
)
def test_smoothing_stays_below_and_tends_to_the_likelihood(mode, n_latents, k):
    y, F = labels(40, max(2, n_latents), seed=10), 1.5 * normal(40, n_latents, seed=11)
    residual = torch.full((40,), k, dtype=DTYPE)
    at, last = mode.at(y, F, residual), None
    for width in (1.0, 0.3, 0.01, 1e-6):
        value = mode.smoothed(y, F, residual, torch.full(at.shape[1:], width, dtype=DTYPE)).value
        assert bool((value <= at + 1e-10).all())
        assert last is None or bool((value >= last - 1e-10).all())  # less smoothing, higher value
        last = value
    torch.testing.assert_close(last, at, atol=1e-5, rtol=0.0)


@pytest.mark.parametrize(
    ("mode", "n_latents"), [(HingeMode(), 1), (HingeMode(), 3), (CrammerSingerMode(), 3)]
)
def test_feasible_slopes_bound_the_likelihood_everywhere(mode, n_latents):
    """-likelihood(F) >= conjugate(slope) - slope F for every F, with equality at the true slope."""
    y = labels(200, max(2, n_latents), seed=12)
    residual = uniform(200, seed=13) if mode.takes_residual else torch.zeros(200, dtype=DTYPE)
    slope = mode.feasible(y, 3.0 * normal(200, n_latents, seed=14))
    torch.testing.assert_close(mode.feasible(y, slope), slope)

    def line(slope, F):
        product = slope * F
        return mode.conjugate(y, slope, residual) - (
            product if mode.separable else product.sum(1, keepdim=True)
        )

    for seed in range(20):
        F = 2.0 * normal(200, n_latents, seed=20 + seed)
        loss = -mode.at(y, F, residual)
        assert bool((loss >= line(slope, F) - 1e-12).all())
        width = torch.full(loss.shape[1:], 1e-7, dtype=DTYPE)
        there = mode.smoothed(y, F, residual, width).slope
        torch.testing.assert_close(loss, line(there, F), atol=1e-5, rtol=0.0)


def test_feasible_slopes_stay_where_they_are_possible():
    y = torch.tensor([2])
    wild = torch.tensor([[-3.0, 1.0, 0.0]], dtype=DTYPE)
    np.testing.assert_allclose(CrammerSingerMode().feasible(y, wild), [[-2.0, 0.0, 2.0]])
    np.testing.assert_allclose(HingeMode().feasible(torch.tensor([0]), torch.tensor([[0.7]])), [[0.0]])
