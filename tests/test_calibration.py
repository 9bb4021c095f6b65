"""Temperature, spread and mixing of class probabilities (eqs. 6.7, 6.9)."""

import numpy as np
import pytest
import torch

from bayesvm._core import calibration
from bayesvm._core.calibration import (
    SPREADS,
    TEMPERATURES,
    fit_calibration,
    fit_mixing,
    loss_curve,
)
from bayesvm._core.predictive import expected_softmax, margins_at_nodes
from tests.problems import moments, uniform


def labels_drawn_from(p, seed):
    """One label per row from the probabilities p, shape (N, C)."""
    u = np.random.default_rng(seed).random(len(p))[:, None]
    return torch.as_tensor((u > np.cumsum(p, 1)).sum(1).clip(max=p.shape[1] - 1))


def test_candidates_span_the_documented_range_and_contain_two_and_one():
    assert TEMPERATURES[0] == pytest.approx(1 / 64)
    assert TEMPERATURES[-1] == pytest.approx(32.0)
    assert 2.0 in TEMPERATURES
    assert (TEMPERATURES.diff() > 0).all()
    assert SPREADS[0] == 1.0
    assert (SPREADS.diff() < 0).all()


def test_curve_is_the_weighted_log_loss():
    _, F, s2 = moments(60, 4, seed=0)
    y = (F + 0.5 * torch.roll(F, 1, 0)).argmax(1)  # labels that mostly agree with the latents
    w = uniform(60, seed=1, low=0.5, high=2.0)
    curve = loss_curve(F, s2, y, w, TEMPERATURES)
    for i in (0, len(TEMPERATURES) // 3, len(TEMPERATURES) // 2):
        T = float(TEMPERATURES[i])
        margins, node_weight = margins_at_nodes(F, s2, y, 32)
        at_nodes = (T * margins).exp().sum(0).reciprocal() @ node_weight
        exact = expected_softmax(F, s2, T).gather(1, y[:, None])[:, 0]
        for p, tolerance in ((at_nodes, 1e-6), (exact, 0.03)):  # single precision
            assert curve[i] == pytest.approx(float(-(w * p.log()).sum()), rel=tolerance)


def test_separable_rows_do_not_ask_for_infinite_confidence():
    y = torch.arange(40) % 3
    F = 6.0 * torch.nn.functional.one_hot(y, 3).double()
    s2 = torch.full_like(F, 0.01)
    weight = torch.ones(40).double()
    found = fit_calibration(F, s2, y, weight)
    curve = loss_curve(F, s2, y, weight, TEMPERATURES)
    assert found.temperature < 2.0
    assert curve[found.temperature == TEMPERATURES][0] / 40.0 <= curve.min() / 40.0 + 1e-3


def test_smallest_temperature_within_a_thousandth_of_a_nat_is_taken(monkeypatch):
    curve = torch.linspace(2.0, 1.0, len(TEMPERATURES)).double()
    curve[9:] = 0.5

    def stand_in(F, s2, y, w, T):
        return 100.0 * curve[torch.searchsorted(TEMPERATURES, T)]

    monkeypatch.setattr(calibration, "loss_curve", stand_in)
    anything = torch.zeros(100, 3).double()
    ones = torch.ones(100).double()
    curve[15] = 0.5 - 0.0009
    assert fit_calibration(anything, anything, ones.long(), ones).temperature == TEMPERATURES[9]
    curve[15] = 0.5 - 0.0011
    assert fit_calibration(anything, anything, ones.long(), ones).temperature == TEMPERATURES[15]


@pytest.mark.parametrize("seed", range(6))
def test_coarse_search_finds_what_a_full_search_finds(seed):
    rng = np.random.default_rng(seed)
    F = torch.as_tensor(rng.normal(size=(200, 4)) * rng.uniform(0.2, 4.0))
    s2 = torch.as_tensor(rng.uniform(0.01, 0.5, size=(200, 4)))
    y = labels_drawn_from(torch.softmax(rng.uniform(0.3, 8.0) * F, 1).numpy(), seed=seed)
    weight = torch.ones(200).double()
    curve = loss_curve(F, s2, y, weight, TEMPERATURES)
    found = fit_calibration(F, s2, y, weight)
    if found.spread == 1.0:
        assert found.temperature == TEMPERATURES[curve <= curve.min() + 0.2][0]


@pytest.mark.parametrize("truth", [0.7, 2.0, 6.0])
def test_temperature_that_made_the_labels_is_found(truth):
    F = torch.as_tensor(np.random.default_rng(0).normal(size=(4000, 3)))
    s2 = torch.full_like(F, 1e-4)
    y = labels_drawn_from(torch.softmax(truth * F, 1).numpy(), seed=1)
    found = fit_calibration(F, s2, y, torch.ones(4000).double())
    assert truth / 1.3 < found.temperature < truth * 1.3


def test_overstated_variances_are_found_out_where_rows_suffice():
    F = torch.as_tensor(np.random.default_rng(0).normal(size=(4000, 5)))
    s2 = torch.full_like(F, 0.05)
    y = labels_drawn_from(expected_softmax(F, s2, 4.0).numpy(), seed=1)
    ones = torch.ones(4000).double()
    found = fit_calibration(F, 8.0 * s2, y, ones)  # eight times what they are
    assert 0.05 <= found.spread <= 0.3
    few = slice(0, 20)
    assert fit_calibration(F[few], 8.0 * s2[few], y[few], ones[few]).spread == 1.0


def test_weights_count_as_rows():
    _, F, s2 = moments(300, 3, seed=2)
    y = labels_drawn_from(torch.softmax(3.0 * F, 1).numpy(), seed=3)
    twice = fit_calibration(F.repeat(2, 1), s2.repeat(2, 1), y.repeat(2), torch.ones(600).double())
    heavy = fit_calibration(F, s2, y, torch.full((300,), 2.0).double())
    assert (heavy.temperature, heavy.spread) == (twice.temperature, twice.spread)
    assert np.array(heavy.mixing) == pytest.approx(np.array(twice.mixing), abs=1e-5)  # single precision


def mixed_labels(n, C, M, seed):
    """Latents, variances, and labels drawn from the softmax of means mixed by M."""
    _, F, s2 = moments(n, C, seed=seed)
    F, s2 = 2.0 * F, 0.1 * s2
    p = expected_softmax(F + (F - F.mean(1, keepdim=True)) @ M, s2, 1.0)
    return F, s2, labels_drawn_from(p.numpy(), seed), torch.ones(n).double()


MIXED = torch.tensor([[0.0, 0.8, 0.0], [0.0, 0.0, -0.6], [0.5, 0.0, 0.0]]).double()


def test_mixing_is_found_where_rows_are_many():
    F, s2, y, w = mixed_labels(4000, 3, MIXED, seed=0)
    found = fit_mixing(F, s2, y, w, 1.0)
    assert (found.diagonal() == 0).all()
    # The same for all classes changes nothing: compare differences between classes.
    centred = (F - F.mean(1, keepdim=True)) @ (found - MIXED)
    error = (centred - centred.mean(1, keepdim=True)).square().mean().sqrt()
    size = ((F - F.mean(1, keepdim=True)) @ MIXED).square().mean().sqrt()
    assert error < 0.2 * size


def test_mixing_minimises_the_log_loss_and_its_prior():
    F, s2, y, w = mixed_labels(300, 3, MIXED, seed=1)
    w = w + 0.5 * (y == 0)
    found = fit_mixing(F, s2, y, w, 1.0)

    def cost(M):
        mean = F + (F - F.mean(1, keepdim=True)) @ M
        own = expected_softmax(mean, s2, 1.0).gather(1, y[:, None])[:, 0]
        return float(-(w * own.log()).sum() + 0.5 * calibration.MIXING_PRECISION * M.square().sum())

    least = cost(found)
    assert least < cost(torch.zeros_like(found)) - 3.0
    for i, j in ((0, 1), (1, 2), (2, 0)):
        for step in (-0.05, 0.05):
            moved = found.clone()
            moved[i, j] += step
            assert cost(moved) > least


def test_noise_is_not_mixed_and_few_rows_hardly():
    rng = np.random.default_rng(3)
    F, s2 = torch.as_tensor(rng.normal(size=(200, 4))), torch.full((200, 4), 0.5).double()
    y, w = torch.as_tensor(rng.integers(4, size=200)), torch.ones(200).double()
    found = fit_calibration(F, s2, y, w)
    before = expected_softmax(F, s2, found.temperature)
    assert float((expected_softmax(*found.of(F, s2)) - before).abs().max()) < 0.01
    F, s2, y, w = mixed_labels(5, 3, MIXED, seed=2)
    assert float(fit_mixing(F, s2, y, w, 1.0).abs().max()) < 0.2


@pytest.mark.parametrize("weight", [1e-12, 1e11])
def test_mixing_is_finite_for_weights_of_any_size(weight):
    F, s2, y, w = mixed_labels(50, 3, MIXED, seed=4)
    found = fit_mixing(F, s2, y, weight * w, 1.0)
    assert torch.isfinite(found).all()
    assert (found.abs().max() < 1e-6) == (weight < 1.0)


def test_two_classes_and_very_many_are_not_mixed():
    for C, mixed in ((2, False), (3, True), (calibration.MOST_MIXED + 1, False)):
        F, s2, y, w = mixed_labels(100, C, torch.zeros(C, C).double(), seed=C)
        assert (fit_calibration(F, s2, y, w).mixing is not None) == mixed
        assert fit_calibration(F, s2, y, w, mixed=False).mixing is None
