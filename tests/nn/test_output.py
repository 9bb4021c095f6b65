"""What follows from latent moments is what the core makes of them."""

import dataclasses

import pytest
import torch

from bayesvm._core.predictive import expected_softmax, predictive_moments
from bayesvm._core.variation_ratio import argmax_probability, log_variation_ratio
from bayesvm.nn import HeadOutput
from bayesvm.nn import _output as module
from tests.problems import generator, moments


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


def test_it_cannot_be_changed():
    output, F, _ = _output()
    with pytest.raises(dataclasses.FrozenInstanceError):
        output.mean = F
