"""The temperature of class probabilities (eq. 6.7)."""

import numpy as np
import pytest
import torch

from bayesvm.core.predictive import expected_softmax
from bayesvm.temperature import TEMPERATURES, loss_curve, pick_temperature
from tests.problems import moments, uniform


def test_candidates_span_the_documented_range_and_contain_two():
    assert TEMPERATURES[0] == pytest.approx(0.25)
    assert TEMPERATURES[-1] == pytest.approx(32.0)
    assert np.abs(TEMPERATURES - 2.0).min() < 1e-12
    assert (np.diff(TEMPERATURES) > 0).all()


def test_smallest_candidate_within_a_thousandth_of_a_nat_is_taken():
    curve = np.linspace(2.0, 1.0, len(TEMPERATURES))
    curve[9:] = 0.5
    curve[15] = 0.5 - 0.0009
    assert pick_temperature(100.0 * curve, 100.0) == TEMPERATURES[9]
    curve[15] = 0.5 - 0.0011
    assert pick_temperature(100.0 * curve, 100.0) == TEMPERATURES[15]


def test_rule_is_per_unit_of_weight():
    curve = np.linspace(1.0, 0.9995, len(TEMPERATURES))
    assert pick_temperature(curve, 1.0) == TEMPERATURES[0]
    assert pick_temperature(1000 * curve, 1.0) == TEMPERATURES[-1]


def test_curve_is_the_weighted_log_loss():
    _, F, s2 = moments(60, 4, seed=0)
    y = (F + 0.5 * torch.roll(F, 1, 0)).argmax(1)  # labels that mostly agree with the latents
    w = uniform(60, seed=1, low=0.5, high=2.0)
    curve = loss_curve(F, s2, y, w)
    for i in (0, len(TEMPERATURES) // 3, len(TEMPERATURES) // 2):
        T = float(TEMPERATURES[i])
        for n_nodes, tolerance in ((64, 1e-10), (4096, 0.03)):
            p = expected_softmax(F, s2, T, n_nodes).gather(1, y[:, None])[:, 0]
            assert curve[i] == pytest.approx(float(-(w * p.log()).sum()), rel=tolerance)


def test_separable_rows_do_not_ask_for_infinite_confidence():
    y = torch.arange(40) % 3
    F = 6.0 * torch.nn.functional.one_hot(y, 3).double()
    s2 = torch.full_like(F, 0.01)
    weight = torch.ones(40).double()
    curve = loss_curve(F, s2, y, weight)
    T = pick_temperature(curve, 40.0)
    assert T < 2.0
    assert curve[TEMPERATURES == T][0] / 40.0 <= curve.min() / 40.0 + 1e-3


@pytest.mark.parametrize("truth", [0.7, 2.0, 6.0])
def test_temperature_that_made_the_labels_is_found(truth):
    rng = np.random.default_rng(0)
    F = torch.as_tensor(rng.normal(size=(4000, 3)))
    s2 = torch.full_like(F, 1e-4)
    p = torch.softmax(truth * F, 1).numpy()
    y = torch.as_tensor((rng.random(4000)[:, None] > p.cumsum(1)).sum(1))
    T = pick_temperature(loss_curve(F, s2, y, torch.ones(4000).double()), 4000.0)
    assert truth / 1.3 < T < truth * 1.3
