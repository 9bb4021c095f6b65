"""Temperatures, doubts and areas under curves against plain computations."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from bayesvm.nn import HeadOutput, calibrate
from bayesvm_studies.images.arrays import Images
from bayesvm_studies.images.heads import SoftmaxOutput, calibrated, calibration_of
from bayesvm_studies.images.training import doubts, evaluate, tell_apart


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


def test_areas_agree_with_scikit_learn_ties_included():
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(0, 8, 200) * 1.0, rng.integers(3, 11, 90) * 1.0
    label = np.r_[np.zeros(200), np.ones(90)]
    found = tell_apart({"entropy": inside}, {"entropy": outside, "mutual_information": outside})
    assert found == {"entropy": pytest.approx(roc_auc_score(label, np.r_[inside, outside]), abs=1e-12)}
    assert tell_apart({"entropy": inside}, {"entropy": inside})["entropy"] == pytest.approx(0.5)


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
