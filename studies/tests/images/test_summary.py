"""The numbers of the summary, computed by hand."""

import json

import numpy as np
import pytest

from bayesvm_studies.images.plan import GROUPS
from bayesvm_studies.images.summary import summarise_images
from studies.tests.images.results import clock, made, many


def test_the_keys_of_the_issue():
    numbers = summarise_images(many()).as_dict()
    json.dumps(numbers, allow_nan=False)
    models = {"softmax", "bayesvm", "bayesvm_adam", "mc_dropout", "laplace", "ensemble"}
    every = models | {f"{m}_tempered" for m in models}
    for group in GROUPS:
        assert set(numbers[group]["accuracy"]) == every
        assert set(numbers["ece"][group]) == every
        assert set(numbers["ood_auroc"][group]) == every
        assert isinstance(numbers["epoch_time_ratio"][group], float)
    assert numbers["epoch_time_ratio_1000_classes"] == pytest.approx(1.3 / 1.2, rel=1e-5)
    assert numbers["machines"] == ["a processor, NVIDIA H200, torch 2", "a processor, torch 2"]


def test_means_over_seeds():
    numbers = summarise_images(
        [made("mnist", "bayesvm", s, correct=c, loss=10.0 * (s + 1)) for s, c in ((0, 90), (1, 96))]
    ).as_dict()
    assert numbers["mnist"]["accuracy"]["bayesvm"] == pytest.approx(0.93)
    assert numbers["mnist"]["accuracy_per_seed"]["bayesvm"] == [0.9, 0.96]
    assert numbers["mnist"]["log_loss"]["bayesvm"] == pytest.approx(0.15)
    assert numbers["mnist"]["log_loss"]["bayesvm_tempered"] == pytest.approx(0.135)
    # |90 - 95| and |96 - 95|, of 100; not what the pooled rows would give.
    assert numbers["ece"]["mnist"]["bayesvm"] == pytest.approx(0.03)
    assert numbers["ece"]["mnist"]["bayesvm_tempered"] == pytest.approx(0.03)
    assert numbers["ood_auroc"]["mnist"]["bayesvm"] == {
        s: pytest.approx(0.805) for s in ("entropy", "log_variation_ratio", "largest_probability")
    }
    assert numbers["mnist"]["predict_ms_per_1000_rows"]["bayesvm"] == pytest.approx(500.0)
    assert numbers["cifar10"]["accuracy"] == {}
    assert numbers["epoch_time_ratio"] == dict.fromkeys(GROUPS)
    assert numbers["epoch_time_ratio_1000_classes"] is None
    assert "softmax" in numbers["mnist"]["missing"]


def test_corruptions_by_severity():
    numbers = summarise_images([made("cifar10", "softmax")]).as_dict()
    found = numbers["ood_auroc"]["cifar10"]["softmax"]
    assert found["by_severity"]["entropy"] == pytest.approx([0.55, 0.6, 0.65, 0.7, 0.75])
    assert found["entropy"] == pytest.approx(0.65)


def test_the_newest_counts_and_a_full_run_before_a_short_one():
    old, new = (
        made("mnist", "softmax", correct=50, started=1.0),
        made("mnist", "softmax", correct=60, started=2.0),
    )
    short = made("mnist", "softmax", correct=70, started=3.0, shortened=True)
    for order in ([old, new, short], [short, new, old]):
        summary = summarise_images(order)
        assert summary.groups["mnist"].models["softmax"].seeds[0].accuracy == 0.6
        assert not summary.groups["mnist"].shortened
    assert summarise_images([short]).groups["mnist"].shortened


def test_a_failure_is_told_and_stops_nobody():
    failed = made("mnist", "bayesvm", 1, status="error", error="HeadError: stuck")
    summary = summarise_images([made("mnist", "bayesvm", 0), failed])
    assert summary.groups["mnist"].failed == {"bayesvm": ["seed 1: HeadError: stuck"]}
    assert len(summary.groups["mnist"].models["bayesvm"].seeds) == 1


def test_epochs_are_timed_by_clocks_of_the_same_recipe():
    runs = [made("mnist", m) for m in ("softmax", "bayesvm")]
    alone = summarise_images([*runs, clock("mnist")])
    # Medians of 1.2 and 1.3 seconds for half of the rows.
    assert alone.epoch_seconds("mnist", "softmax") == pytest.approx(2.4)
    assert alone.epoch_seconds("mnist", "bayesvm") == pytest.approx(2.6)
    assert summarise_images(runs).epoch_seconds("mnist", "softmax") == pytest.approx(2.3)  # as trained
    residual = [made("cifar10_residual", "softmax"), clock("cifar10_residual", "cifar10_residual")]
    assert summarise_images(residual).epoch_seconds("cifar10_residual", "softmax") == pytest.approx(2.3)
    pace = clock("cifar10_residual_pace", "cifar10_residual", softmax=(7.0, 7.0, 7.0), batch=256)
    assert summarise_images([*residual, pace]).epoch_seconds("cifar10_residual", "softmax") == pytest.approx(
        14.0
    )
    assert np.isnan(summarise_images(runs).epoch_seconds("mnist", "laplace"))
