"""What follows from latent moments is what the core makes of them, and how `calibrate` scales them."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar

from bayesvm._core.predictive import expected_softmax, predictive_moments
from bayesvm._core.variation_ratio import argmax_probability, log_variation_ratio
from bayesvm.nn import BayesianSVMHead, Calibration, HeadError, HeadOutput, calibrate
from bayesvm.nn import _output as module
from tests.problems import generator, labels, moments, normal, uniform


def _output(n=30, n_classes=5, T=3.0):
    _, F, s2 = moments(n, n_classes, seed=1)
    return HeadOutput(F, s2, torch.tensor(T)), F, s2


@pytest.mark.parametrize("block", [2**25, 128 * 5 * 7])
def test_everything_is_the_cores(block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_NUMBERS", block)
    output, F, s2 = _output()
    p = expected_softmax(F, s2, 3.0)
    torch.testing.assert_close(output.probabilities(), p)
    torch.testing.assert_close(output.predict(), p.argmax(1))
    torch.testing.assert_close(output.variation_ratio(), 1.0 - argmax_probability(F, s2).amax(1))
    torch.testing.assert_close(output.log_variation_ratio(), log_variation_ratio(F, s2))
    expected = predictive_moments(F, s2, 3.0)
    torch.testing.assert_close(output.entropy(), expected.total)
    torch.testing.assert_close(output.mutual_information(), expected.total - expected.aleatoric)


def test_probabilities_agree_with_sampling():
    _, F, s2 = _output(n=4)
    s2 = 0.2 * s2  # where 128 nodes are exact to the third digit
    output = HeadOutput(F, s2, torch.tensor(2.0))
    noise = torch.randn(200_000, 4, 5, generator=generator(2), dtype=F.dtype)
    f = F + s2.sqrt() * noise
    torch.testing.assert_close(output.probabilities(), torch.softmax(2.0 * f, 2).mean(0), rtol=0.0, atol=5e-3)
    wins = torch.nn.functional.one_hot(f.argmax(2), 5).double().mean(0)
    torch.testing.assert_close(output.variation_ratio(), 1.0 - wins.amax(1), rtol=0.0, atol=5e-3)


def test_margin_is_the_lead_in_standard_deviations():
    mean = torch.tensor([[3.0, 1.0, 0.0], [0.0, 0.5, 2.0]])
    variance = torch.tensor([[0.5, 0.5, 9.0], [9.0, 3.0, 1.0]])
    margin = HeadOutput(mean, variance, torch.tensor(2.0)).margin()
    torch.testing.assert_close(margin, torch.tensor([2.0, 0.75]))


def test_sure_rows_stay_ordered_and_finite_in_single_precision():
    lead = torch.tensor([5.0, 50.0, 500.0])
    output = HeadOutput(
        torch.stack([lead, torch.zeros(3), torch.zeros(3)], 1), torch.full((3, 3), 0.5), torch.tensor(2.0)
    )
    log_ratio = output.log_variation_ratio()
    assert log_ratio.dtype == torch.float32
    assert (log_ratio[:-1] > log_ratio[1:]).all()
    for value in (log_ratio, output.entropy(), output.mutual_information(), output.variation_ratio()):
        assert torch.isfinite(value).all()
    assert (output.mutual_information() >= 0).all()


def _labelled(T, spread=1.0, n=4000, n_classes=4):
    """Latent moments, and labels drawn from the class probabilities at a temperature and a spread."""
    F = normal(n, n_classes, seed=1)
    s2 = uniform(n, n_classes, seed=2, low=0.05, high=0.3)
    y = torch.multinomial(expected_softmax(F, spread * s2, T), 1, generator=generator(3))[:, 0]
    return F, s2, y


def _calibrated(F, s2, y):
    return calibrate(HeadOutput(F, s2, torch.tensor(2.0)), None, y)


@pytest.mark.parametrize("T", [0.7, 2.0, 5.0])
def test_the_temperature_is_the_minimum_of_the_log_loss(T):
    F, s2, y = _labelled(T)
    found = _calibrated(F, s2, y)

    def loss(log_T):
        return float(-expected_softmax(F, s2, math.exp(log_T)).gather(1, y[:, None]).log().mean())

    best = minimize_scalar(loss, bounds=(-1.0, 3.0), method="bounded")
    assert found.spread == 1.0
    assert loss(math.log(found.temperature)) <= best.fun + 3e-4
    assert found.temperature == pytest.approx(T, rel=0.15)


@pytest.mark.parametrize("spread", [8.0, 1.0])
def test_the_spread_that_made_the_labels_is_found(spread):
    F, s2, y = _labelled(2.0, spread, n=15_000)
    s2 = s2 * (1.0 + 4.0 * (uniform(len(s2), 1, seed=5, low=0.0, high=1.0) > 0.5))
    y = torch.multinomial(expected_softmax(F, spread * s2, 2.0), 1, generator=generator(3))[:, 0]
    found = _calibrated(F, s2, y)
    assert found.spread == spread
    assert _calibrated(F[:50], s2[:50], y[:50]).spread == 1.0  # it must pay for itself

    def loss(T):
        return float(-expected_softmax(F, spread * s2, T).gather(1, y[:, None]).log().mean())

    assert loss(found.temperature) <= loss(2.0) + 1e-4


def test_where_labels_do_not_say_the_smallest_is_taken():
    F = 30.0 * torch.eye(3, dtype=torch.float64)
    found = _calibrated(F, torch.full((3, 3), 0.01), torch.arange(3))
    assert 0.25 <= found.temperature < 1.0
    wrong = _calibrated(F, torch.full((3, 3), 0.01), (torch.arange(3) + 1) % 3)
    assert wrong.temperature == pytest.approx(0.25)


def test_probabilities_follow_and_variation_ratios_do_not():
    F, s2, _ = _labelled(2.0, n=50)
    plain, wide = (HeadOutput(F, s2, torch.tensor(3.0), torch.tensor(k)) for k in (1.0, 5.0))
    torch.testing.assert_close(wide.probabilities(), expected_softmax(F, 5.0 * s2, 3.0))
    assert (wide.entropy() > plain.entropy()).all()
    assert (wide.mutual_information() > plain.mutual_information()).all()
    assert torch.equal(wide.variation_ratio(), plain.variation_ratio())


def test_a_head_takes_it_over_and_stays_as_it_was():
    X, y = normal(200, 5, seed=1).float(), labels(200, 3, seed=2)
    head = BayesianSVMHead(5, 3, 6)
    for _ in range(10):
        head.loss(X, y, 200)
    found = calibrate(head, X, y)
    assert found == pytest.approx(Calibration(float(head.temperature), float(head.spread)))
    assert found == calibrate(head.eval()(X), None, y)
    head.train()
    calibrate(head, X, y)
    assert head.training
    torch.testing.assert_close(head.eval()(X).temperature, torch.tensor(found.temperature))
    torch.testing.assert_close(head.eval()(X).spread, torch.tensor(found.spread))
    with pytest.raises(ValueError, match="features"):
        calibrate(head, None, y)
    with pytest.raises(TypeError, match="BayesianSVMHead"):
        calibrate(torch.nn.Linear(2, 2), X, y)


def test_latents_that_are_not_finite_are_reported():
    F = torch.full((5, 3), math.nan)
    with pytest.raises(HeadError, match="finite"):
        _calibrated(F, torch.ones(5, 3), torch.arange(5) % 3)
