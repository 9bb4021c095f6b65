"""Log probabilities of any output, and the loss that does not vanish."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from bayesvm._core.predictive import log_softmax_pairwise
from bayesvm.adversarial._model import (
    MixtureOutput,
    in_double,
    joined_outputs,
    log_odds_against,
    log_probabilities,
)
from bayesvm.nn import HeadOutput


def moments(n=50, C=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(n, C, generator=generator, dtype=torch.float64)
    return mean, 0.05 + torch.rand(n, C, generator=generator, dtype=torch.float64)


def test_log_probabilities_of_the_head_follow_its_probabilities():
    mean, variance = moments()
    output = HeadOutput(mean, variance, torch.tensor(2.0, dtype=torch.float64))
    log_p = log_probabilities(output)
    assert torch.allclose(log_p.exp().sum(1), torch.ones(50, dtype=torch.float64))
    assert torch.equal(log_p, log_softmax_pairwise(mean, variance, 2.0))
    wide = HeadOutput(mean, variance, output.temperature, torch.tensor(3.0, dtype=torch.float64))
    assert torch.equal(log_probabilities(wide), log_softmax_pairwise(mean, 3.0 * variance, 2.0))
    # An approximation, which is the better the smaller the variances.
    near = HeadOutput(mean, 0.05 * variance, output.temperature)
    assert (log_probabilities(near).exp() - near.probabilities()).abs().max() < 0.01


def test_log_probabilities_of_logits_are_the_softmax():
    logits = moments()[0]
    assert torch.equal(log_probabilities(logits), torch.log_softmax(logits, 1))


def test_what_is_no_output_is_refused():
    with pytest.raises(TypeError, match="dict"):
        log_probabilities({})


def test_mixture_is_the_mean_of_its_members():
    members = torch.log_softmax(torch.stack([moments(seed=s)[0] for s in range(3)], 1), 2)
    output = MixtureOutput(members)
    mean = members.exp().mean(1)
    assert torch.allclose(output.probabilities(), mean)
    assert torch.equal(output.predict(), mean.argmax(1))
    assert torch.allclose(output.entropy(), -(mean * mean.log()).sum(1))
    assert torch.allclose(output.variation_ratio(), 1.0 - mean.amax(1))
    top = mean.sort(1, descending=True).values
    assert torch.allclose(output.margin(), (top[:, 0] / top[:, 1]).log())
    within = -(members.exp() * members).sum(2).mean(1)
    assert torch.allclose(output.mutual_information(), output.entropy() - within)
    assert MixtureOutput(members[:, :1]).mutual_information().abs().max() < 1e-12


def test_doubt_of_a_mixture_is_ordered_where_probabilities_underflow():
    gaps = torch.tensor([10.0, 100.0, 1000.0, 5000.0])
    logits = torch.stack([gaps, torch.zeros(4), torch.zeros(4)], 1)[:, None]
    found = MixtureOutput(torch.log_softmax(logits, 2)).log_variation_ratio()
    assert torch.allclose(found, np.log(2.0) - gaps - torch.log1p(2.0 * (-gaps).exp()), rtol=1e-5)


def test_outputs_of_consecutive_rows_are_joined():
    mean, variance = moments()
    whole = HeadOutput(mean, variance, torch.tensor(2.0))
    parts = [
        HeadOutput(*part, whole.temperature) for part in zip(mean.split(20), variance.split(20), strict=True)
    ]
    joined = joined_outputs(parts)
    assert torch.equal(joined.mean, mean)
    assert torch.equal(joined.variance, variance)
    assert joined.temperature is whole.temperature
    assert torch.equal(joined_outputs(mean.split(7)), mean)


def test_log_odds_are_those_of_the_probabilities():
    log_p = torch.log_softmax(moments()[0], 1)
    y = torch.arange(50) % 4
    p = log_p.exp().gather(1, y[:, None])[:, 0]
    assert torch.allclose(log_odds_against(log_p, y), ((1.0 - p) / p).log())


def test_log_odds_have_the_direction_of_the_cross_entropy():
    """The two gradients differ by the factor 1 - p of each row and by nothing else."""
    y = torch.arange(50) % 4
    slopes = []
    for loss in (log_odds_against, lambda log_p, y: functional.nll_loss(log_p, y, reduction="none")):
        mean, variance = (value.clone().requires_grad_(True) for value in moments())
        log_p = log_probabilities(HeadOutput(mean, variance, torch.tensor(2.0)))
        slopes.append(torch.autograd.grad(loss(log_p, y).sum(), (mean, variance)))
    factor = 1.0 - log_p.exp().gather(1, y[:, None])
    for odds, entropy in zip(*slopes, strict=True):
        assert torch.allclose(odds * factor, entropy, atol=1e-12)


@pytest.mark.parametrize("lead", [30.0, 300.0])
def test_gradient_does_not_vanish_where_a_row_is_certain(lead):
    logits = torch.tensor([[lead, 0.0, 0.0]], requires_grad=True)
    y = torch.tensor([0])
    (odds,) = torch.autograd.grad(log_odds_against(log_probabilities(logits), y).sum(), logits)
    assert np.allclose(odds, [[-1.0, 0.5, 0.5]], atol=1e-6)
    (entropy,) = torch.autograd.grad(functional.cross_entropy(logits, y), logits)
    assert float(entropy.abs().max()) < 1e-12  # what an attack would have had to go by


def test_in_double_keeps_the_kind():
    output = HeadOutput(*(value.float() for value in moments()), torch.tensor(2.0))
    exact = in_double(output)
    assert isinstance(exact, HeadOutput)
    assert exact.mean.dtype == exact.variance.dtype == exact.temperature.dtype == torch.float64
