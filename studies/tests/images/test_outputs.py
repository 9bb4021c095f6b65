"""The face of softmax layers: probabilities, doubts far into the tail, and the loss."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from bayesvm.nn._loop import Head
from bayesvm_studies.images.heads import SoftmaxHead, SoftmaxOutput


@pytest.fixture
def output():
    generator = torch.Generator().manual_seed(0)
    logits = 3.0 * torch.randn(50, 4, 5, generator=generator, dtype=torch.float64)
    return SoftmaxOutput(logits, torch.tensor(1.5, dtype=torch.float64))


def members(output):
    z = 1.5 * output.logits.numpy()
    p = np.exp(z - z.max(2, keepdims=True))
    return p / p.sum(2, keepdims=True)


def test_probabilities_are_means_over_members(output):
    p = members(output).mean(1)
    np.testing.assert_allclose(output.probabilities().numpy(), p, rtol=1e-12)
    np.testing.assert_array_equal(output.predict().numpy(), p.argmax(1))


def test_entropy_splits_into_two_parts(output):
    p = members(output)
    total = -(p.mean(1) * np.log(p.mean(1))).sum(1)
    within = -(p * np.log(p)).sum(2).mean(1)
    np.testing.assert_allclose(output.entropy().numpy(), total, rtol=1e-12)
    np.testing.assert_allclose(output.mutual_information().numpy(), total - within, rtol=1e-9, atol=1e-12)


def test_one_member_knows_of_no_disagreement(output):
    one = SoftmaxOutput(output.logits[:, :1], output.temperature)
    assert float(one.mutual_information().abs().max()) < 1e-12


def test_the_variation_ratio_and_the_margin(output):
    p = np.sort(members(output).mean(1), axis=1)
    np.testing.assert_allclose(output.variation_ratio().numpy(), 1.0 - p[:, -1], rtol=1e-10)
    np.testing.assert_allclose(output.margin().numpy(), np.log(p[:, -1] / p[:, -2]), rtol=1e-9)


def test_doubt_is_ordered_where_probabilities_underflow():
    gaps = torch.tensor([10.0, 100.0, 1000.0, 5000.0])
    logits = torch.stack([gaps, torch.zeros(4), torch.zeros(4)], 1)[:, None]
    found = SoftmaxOutput(logits, torch.ones(())).log_variation_ratio()
    expected = np.log(2.0) - gaps.numpy() - np.log1p(2.0 * np.exp(-gaps.numpy().astype(float)))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_the_head_is_a_linear_layer_with_cross_entropy():
    torch.manual_seed(0)
    head: Head = SoftmaxHead(7, 4)
    features, y = torch.randn(20, 7), torch.arange(20) % 4
    head.initialise(features, y)
    logits = features @ head.linear.weight.mT + head.linear.bias
    loss = head.loss(features, y, 1000, step=False)
    torch.testing.assert_close(loss, functional.cross_entropy(logits, y))
    loss.backward()
    assert float(head.linear.weight.grad.abs().sum()) > 0.0
    assert float(head.kl()) == 0.0
    head.check()
    torch.testing.assert_close(head(features).probabilities(), torch.softmax(logits, 1))
    assert "temperature" in head.state_dict()


def test_features_are_dropped_in_training_only():
    torch.manual_seed(0)
    head = SoftmaxHead(200, 3, dropout=0.5)
    features = torch.randn(4, 200)
    assert not torch.equal(head(features).logits, head(features).logits)
    head.eval()
    assert torch.equal(head(features).logits, head(features).logits)
