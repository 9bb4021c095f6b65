"""The softmax layer, temperatures, and what is scored."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from bayesvm.nn import HeadOutput, calibrate
from bayesvm.nn._loop import Head
from bayesvm_studies.images.arrays import Images
from bayesvm_studies.images.heads import SoftmaxHead, SoftmaxOutput, calibrated, calibration_of
from bayesvm_studies.images.training import doubts, evaluate, tell_apart


def test_members_are_softmax_layers_at_the_temperature():
    logits = torch.randn(10, 2, 3, generator=torch.Generator().manual_seed(0))
    output = SoftmaxOutput(logits, torch.tensor(1.5))
    torch.testing.assert_close(output.probabilities(), torch.softmax(1.5 * logits, 2).mean(1))


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


def softmax_rows(n, temperature, seed=0):
    """Logits, and labels drawn from their softmax at a temperature."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2.0 * torch.randn(n, 1, 5, generator=generator, dtype=torch.float64)
    p = torch.softmax(temperature * logits[:, 0], 1)
    y = torch.multinomial(p, 1, generator=generator)[:, 0]
    return SoftmaxOutput(logits, torch.ones((), dtype=torch.float64)), y


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_the_temperature_that_made_the_labels_is_found(temperature):
    output, y = softmax_rows(40_000, temperature)
    assert calibration_of(output, y)["temperature"] == pytest.approx(temperature, rel=0.03)


def test_no_other_temperature_is_better():
    output, y = softmax_rows(500, 0.7)
    best = calibration_of(output, y)["temperature"]

    def loss(T):
        return -float(calibrated(output, {"temperature": T}).log_probabilities().gather(1, y[:, None]).mean())

    assert loss(best) <= min(loss(T) for T in np.geomspace(0.1, 10.0, 400)) + 1e-8


def test_the_head_is_calibrated_in_its_own_way():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(300, 3, generator=generator)
    y = mean.argmax(1).roll(30)
    output = HeadOutput(mean, torch.full((300, 3), 0.2), torch.tensor(2.0))
    assert calibration_of(output, y) == calibrate(output, None, y)._asdict()
    other = calibrated(output, {"temperature": 7.0, "spread": 4.0})
    assert float(other.temperature) == 7.0
    assert float(other.spread) == 4.0
    assert float(output.temperature) == 2.0


def test_larger_means_more_doubtful():
    sure, unsure = (SoftmaxOutput(scale * torch.eye(4)[None].mT, torch.ones(())) for scale in (9.0, 0.5))
    sure, unsure = (SoftmaxOutput(o.logits.reshape(4, 1, 4), o.temperature) for o in (sure, unsure))
    both = SoftmaxOutput(torch.cat([sure.logits, unsure.logits]), torch.ones(()))
    found = doubts(both)
    assert "mutual_information" not in found  # one member cannot disagree with itself
    for value in found.values():
        assert value[:4].max() < value[4:].min()


def images_of(test, y, elsewhere):
    rows = test.logits[:, 0]
    empty = rows[:0]
    return Images(empty, y[:0], rows[:300], y[:300], rows[300:], y[300:], elsewhere, 5)


def test_scores_with_and_without_a_temperature():
    output, y = softmax_rows(3000, 0.4)
    blurred = 0.1 * output.logits[:200, 0]
    same = output.logits[:50, 0]
    images = images_of(output, y, {"blurred": blurred, "same": same})

    def output_of(rows):
        return SoftmaxOutput(rows[:, None], torch.ones((), dtype=torch.float64))

    known = evaluate(output_of, images)
    extra = known["extra"]
    right = int((output.logits[300:, 0].argmax(1) == y[300:]).sum())
    assert known["correct"] == extra["tempered"]["correct"] == right
    p = torch.softmax(output.logits[300:, 0], 1)
    loss = -p.gather(1, y[300:, None]).log().sum()
    assert known["log_loss_sum"] == pytest.approx(float(loss), rel=1e-9)
    assert extra["tempered"]["log_loss_sum"] < known["log_loss_sum"]
    assert extra["temperature"] == pytest.approx(0.4, rel=0.25)
    assert extra["own_temperature"] == 1.0
    assert known["n_test"] == 2700
    assert sum(rows for _, rows, _, _ in known["bins"]) == 2700
    for kind in ("ood", "ood_tempered"):
        scores = extra[kind]["blurred"]
        assert set(scores) == {"entropy", "log_variation_ratio", "largest_probability"}
        assert min(scores.values()) > 0.9
        assert 0.3 < extra[kind]["same"]["entropy"] < 0.7
    inside, outside = (doubts(output_of(rows)) for rows in (output.logits[300:, 0], blurred))
    assert extra["ood"]["blurred"] == pytest.approx(tell_apart(inside, outside), rel=1e-5)
