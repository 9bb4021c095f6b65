"""What a worker does: models are trained, kept, put together and timed."""

import dataclasses
import math

import pytest
import torch

from bayesvm_studies.images import ImageSettings
from bayesvm_studies.images.arrays import read_images
from bayesvm_studies.images.models import PASSES, evaluated, load_model, model_file, output_of
from bayesvm_studies.images.plan import make_plan
from bayesvm_studies.images.training import evaluate, measure, warm_up
from studies.tests.doubles import as_read

pytestmark = pytest.mark.usefixtures("small_networks")


@pytest.fixture
def plan(tiny_data):
    return make_plan(ImageSettings(subset="mnist", epochs=16, seeds=2), tiny_data)


def task_of(plan, model, seed=0, protocol="mnist"):
    return next(t for t in plan.tasks if (t.protocol, t.model, t.split) == (protocol, model, seed))


def ran(task, folder):
    began = []
    warm_up(task.config)
    known = measure(dataclasses.asdict(task), folder, lambda: began.append(True))
    assert began == [True]
    return as_read(task, **known)


def file_of(task, kept):
    return model_file(kept, task.protocol, task.model, task.split, task.place)


@pytest.mark.parametrize("model", ["softmax", "bayesvm", "bayesvm_adam", "mc_dropout"])
def test_training_leaves_curves_scores_and_a_model(plan, folder, kept, model):
    task = task_of(plan, model)
    result = ran(task, folder)
    epochs = result.extra["epochs"]
    assert [e["number"] for e in epochs] == list(range(1, 17))
    for e in epochs:
        assert e["seconds"] > 0.0
        assert all(math.isfinite(e[k]) for k in ("objective", "likelihood", "kl", "test_log_loss"))
        if model == "softmax":
            assert e["kl"] == 0.0
            assert e["likelihood"] == pytest.approx(-e["objective"], rel=1e-4)
    assert result.n_train == 360
    assert result.n_test == 150
    assert result.fit_s == pytest.approx(sum(e["seconds"] for e in epochs), rel=1e-3)
    assert result.correct / result.n_test > 0.9
    assert epochs[-1]["test_log_loss"] < epochs[0]["test_log_loss"]
    assert result.extra["ood"]["fashion_mnist"]["entropy"] > 0.8
    assert not file_of(task, kept).with_suffix(".unfinished").exists()

    model_again = load_model(file_of(task, kept))
    images = read_images(folder, torch.device("cpu"), None)
    with evaluated(model_again):
        again = evaluate(lambda X: output_of(model_again, X), images)
    assert again["correct"] == result.correct
    assert again["log_loss_sum"] == pytest.approx(result.log_loss_sum, rel=1e-5)
    assert model_again.temperature == pytest.approx(result.extra["temperature"])


def test_the_same_seed_gives_the_same_scores(tiny_data, folder):
    plan = make_plan(ImageSettings(subset="mnist", epochs=2, seeds=2), tiny_data)
    once, again, other = (ran(task_of(plan, "bayesvm", s), folder) for s in (0, 0, 1))
    assert once.log_loss_sum == again.log_loss_sum
    assert once.log_loss_sum != other.log_loss_sum


def test_an_ensemble_and_a_laplace_approximation(plan, folder, kept):
    members = [ran(task_of(plan, "softmax", seed), folder) for seed in (0, 1)]
    ensemble = ran(task_of(plan, "ensemble"), folder)
    models = [load_model(file_of(task_of(plan, "softmax", seed), kept)) for seed in (0, 1)]
    images = read_images(folder, torch.device("cpu"), None)
    with torch.no_grad():
        p = sum(output_of(m, images.test_X).probabilities() for m in models) / 2
    loss = -p.double().gather(1, images.test_y[:, None]).log().sum()
    assert ensemble.log_loss_sum == pytest.approx(float(loss), rel=1e-5)
    assert ensemble.log_loss_sum <= 0.5 * sum(
        m.log_loss_sum for m in members
    )  # a mean is no worse than its parts
    assert ensemble.extra["members"] == 2
    assert "mutual_information" in ensemble.extra["ood"]["fashion_mnist"]

    laplace = ran(task_of(plan, "laplace", 1), folder)
    assert laplace.extra["prior_precision"] > 0.0
    assert laplace.correct >= members[1].correct - 3
    assert laplace.log_loss_sum != members[1].log_loss_sum


def test_a_model_that_is_not_there(plan, folder):
    with pytest.raises(FileNotFoundError, match="train it again"):
        ran(task_of(plan, "laplace"), folder)


def test_dropout_stays_on_for_predictions(plan, folder, kept):
    task = task_of(plan, "mc_dropout")
    ran(task, folder)
    model = load_model(file_of(task, kept))
    X = read_images(folder, torch.device("cpu"), 20).test_X
    with evaluated(model):
        once, again = output_of(model, X), output_of(model, X)
    assert once.logits.shape == (20, PASSES, 10)
    assert torch.equal(once.logits, again.logits)
    assert float(once.logits.std(1).min()) > 0.0
    assert not any(m.training for m in model.dropouts)


def test_a_warm_up_changes_the_first_epochs(plan, folder, kept):
    plain, warm = (ran(task_of(plan, m, 0, "warmup"), folder) for m in ("bayesvm", "bayesvm_warmup"))
    head = load_model(file_of(task_of(plan, "bayesvm_warmup", 0, "warmup"), kept)).head
    assert head.kl_warmup == 6  # two epochs of three batches
    assert plain.extra["epochs"][0]["objective"] != warm.extra["epochs"][0]["objective"]


def test_clocks(plan, folder):
    task = task_of(plan, "mnist", 0, "timing")
    task.config["arguments"]["rounds"] = 2
    result = ran(task, folder)
    seconds = result.extra["epoch_s"]
    assert {head: len(s) for head, s in seconds.items()} == dict.fromkeys(
        ("softmax", "bayesvm", "bayesvm_adam"), 2
    )
    assert result.extra["ratio"]["softmax"] == 1.0
    middle = sum(seconds["bayesvm"]) / sum(seconds["softmax"])  # of two, the median is the mean
    assert result.extra["ratio"]["bayesvm"] == pytest.approx(middle, rel=1e-3)


def test_a_clock_for_many_classes(tiny_data, tmp_path, monkeypatch):
    from torch import nn

    from bayesvm_studies.images import networks
    from bayesvm_studies.images.networks import Standardise
    from bayesvm_studies.images.plan import _Maker

    def small(dropout=0.0):
        return nn.Sequential(Standardise("cifar10"), nn.Flatten(), nn.Linear(3072, 12), nn.ReLU()), 12

    monkeypatch.setattr(networks, "residual9", small)
    task = _Maker(ImageSettings(limit_rows=256), tiny_data).timing_many_classes()
    task.config["arguments"] |= {"rounds": 1, "n_classes": 60, "n_inducing": 8, "augment": False}
    task.config["arguments"]["recipe"]["precision"] = "float32"
    place = tmp_path / "synthetic"
    place.mkdir()
    result = ran(task, place)
    assert result.n_classes == 60
    assert result.n_train == 256
    assert result.extra["ratio"]["bayesvm"] > 0.0


def test_a_training_that_was_killed_goes_on(plan, folder, kept, monkeypatch):
    """As if the process had died after the last epoch, before anything was scored."""
    task = task_of(plan, "bayesvm")
    whole = ran(task, folder)
    file_of(task, kept).unlink()

    def die(*ignored):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("bayesvm_studies.images.training._scored", die)
        with pytest.raises(KeyboardInterrupt):
            ran(task, folder)
    assert file_of(task, kept).with_suffix(".unfinished").is_dir()
    resumed = ran(task, folder)
    assert resumed.log_loss_sum == whole.log_loss_sum
    assert [e["objective"] for e in resumed.extra["epochs"]] == [
        e["objective"] for e in whole.extra["epochs"]
    ]
    assert not file_of(task, kept).with_suffix(".unfinished").exists()


def test_a_broken_gpu_ends_its_process_and_nobody_else(monkeypatch, plan, folder):
    ended = []

    class Ended(Exception):
        pass

    def leave(status):
        ended.append(status)
        raise Ended

    def failing(message):
        def fail(*ignored):
            raise RuntimeError(message)

        monkeypatch.setattr("bayesvm_studies.images.training.train_one", fail)

    monkeypatch.setattr("os._exit", leave)
    failing("CUDA error: an illegal memory access was encountered\nmore")
    with pytest.raises(Ended):
        ran(task_of(plan, "softmax"), folder)
    assert ended == [1]
    failing("CUDA out of memory. Tried to allocate")
    with pytest.raises(RuntimeError, match="out of memory"):
        ran(task_of(plan, "softmax"), folder)
