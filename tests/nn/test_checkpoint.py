"""A run that is stopped, in whatever way, goes on as if nothing had happened."""

import os
import pickle
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bayesvm.nn import BayesianSVMHead, _bound
from bayesvm.nn import _checkpoint as module
from bayesvm.nn._train import Recipe, run, train
from tests.nn.fakes import FakeHead, blobs, network, same, weights
from tests.nn.test_training import Interrupts, _overfitting

ROOT = Path(__file__).parents[2]
RECIPE = Recipe(epochs=6, batch_size=40, rate=1e-2, seed=1, schedule="one_cycle")


def _modules():
    return network(dropout=0.2, norm=True), FakeHead(6, 3)


def _undisturbed(recipe=RECIPE, **arguments):
    net, head = _modules()
    epochs = train(net, head, *blobs(), recipe, **arguments)
    return weights(net, head), epochs


def _scores(epochs):
    return [(e.number, e.objective, e.likelihood, e.kl, e.validation_log_loss) for e in epochs]


class Stop(Exception):
    pass


def _stop_after(number):
    def on_epoch(epoch):
        if epoch.number == number:
            raise Stop

    return on_epoch


@pytest.mark.parametrize("number", [1, 4, 6])
def test_resumed_run_gives_the_weights_of_an_undisturbed_one(tmp_path, number):
    validation = blobs(60, seed=5)
    expected, epochs = _undisturbed(validation=validation)
    with pytest.raises(Stop):
        train(
            *_modules(),
            *blobs(),
            RECIPE,
            validation=validation,
            checkpoint=tmp_path,
            on_epoch=_stop_after(number),
        )
    # Weights of another start and numbers drawn meanwhile must not matter.
    net, head = network(seed=8, dropout=0.2, norm=True), FakeHead(6, 3)
    torch.rand(3, generator=head.generator)
    resumed = train(net, head, *blobs(), RECIPE, validation=validation, checkpoint=tmp_path)
    assert same(weights(net, head), expected)
    assert _scores(resumed) == _scores(epochs)


@pytest.mark.parametrize(
    "options", [{}, {"posterior": "gradient", "kl_warmup": 9}], ids=["natural", "gradient"]
)
@pytest.mark.parametrize("many", [False, True], ids=["few classes", "many classes"])
def test_our_own_head_resumes_exactly(tmp_path, monkeypatch, options, many):
    if many:
        monkeypatch.setattr(_bound, "DENSE_NUMBERS", 0)
    recipe = replace(RECIPE, epochs=4)
    rows = blobs(120, spread=2.0)
    states = []
    for folder, stop in ((None, None), (tmp_path, _stop_after(2)), (tmp_path, None)):
        net, head = network(dropout=0.2, norm=True), BayesianSVMHead(6, 3, 8, **options)
        with pytest.raises(Stop) if stop else nullcontext():
            epochs = train(net, head, *rows, recipe, validation=rows, checkpoint=folder, on_epoch=stop)
        states.append((weights(net, head), epochs))
    assert same(states[0][0], states[2][0])
    assert _scores(states[0][1]) == _scores(states[2][1])
    assert states[0][1][-1].objective < states[0][1][0].objective


SCRIPT = """
import sys, time, torch
from bayesvm.nn import Recipe, train
from tests.nn.fakes import FakeHead, blobs, network, weights

folder, target = sys.argv[1:3]

def slowly(X, generator):
    time.sleep(0.004)
    return X + 0.1 * torch.randn(X.shape, generator=generator)

def say(epoch):
    print(epoch.number, flush=True)

net, head = network(dropout=0.2, norm=True), FakeHead(6, 3)
recipe = Recipe(epochs=12, batch_size=20, rate=1e-2, augment=slowly, schedule="one_cycle", weight_decay=0.1)
epochs = train(net, head, *blobs(), recipe, validation=blobs(60, seed=5), checkpoint=folder, on_epoch=say)
torch.save({"weights": weights(net, head), "losses": [e.validation_log_loss for e in epochs]}, target)
"""


def _start(folder, target):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(target)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )


# Slow; interruption and resumption in one process run fast.
@pytest.mark.slow
def test_kill_9_costs_nothing(tmp_path):
    disturbed, straight = tmp_path / "disturbed.pt", tmp_path / "straight.pt"
    seen = []
    with _start(tmp_path / "a", disturbed) as process:
        for line in process.stdout:
            seen.append(int(line))
            if seen[-1] == 4:  # the next epoch has begun
                os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not disturbed.exists()
    assert (tmp_path / "a" / "last.pt").exists()
    with _start(tmp_path / "a", disturbed) as process:
        seen += [int(line) for line in process.stdout]
        assert process.wait() == 0
    # Printed after the checkpoint was written: no epoch is done twice, but for a kill in between.
    assert sorted(set(seen)) == list(range(1, 13))
    assert len(seen) <= 13
    # In a process of its own too: with as many threads, sums are rounded alike.
    with _start(tmp_path / "b", straight) as process:
        assert len(process.stdout.readlines()) == 12
    a, b = (torch.load(path, weights_only=True) for path in (disturbed, straight))
    assert same(a["weights"], b["weights"])
    assert a["losses"] == b["losses"]


def test_dying_between_the_two_files_costs_nothing(tmp_path, monkeypatch):
    X, y, validation, recipe = _overfitting()
    expected = run(network(), FakeHead(6, 3), X, y, recipe, validation=validation)
    write = module._write
    for n_writes in range(1, 9):
        folder = tmp_path / str(n_writes)
        left = [n_writes]

        def dies(content, path, left=left):
            if not left[0]:
                raise Stop
            left[0] -= 1
            write(content, path)

        monkeypatch.setattr(module, "_write", dies)
        with pytest.raises(Stop):
            train(network(), FakeHead(6, 3), X, y, recipe, validation=validation, checkpoint=folder)
        monkeypatch.setattr(module, "_write", write)
        net, head = network(), FakeHead(6, 3)
        resumed = run(net, head, X, y, recipe, validation=validation, checkpoint=folder)
        assert _scores(resumed.epochs) == _scores(expected.epochs)
        assert resumed.kept == expected.kept
        names = sorted(path.name for path in folder.iterdir())
        assert names == [f"best-{expected.kept:05d}.pt", "last.pt"]


def test_a_finished_run_is_not_trained_again(tmp_path):
    validation = blobs(60, seed=5)
    expected, epochs = _undisturbed(validation=validation, checkpoint=tmp_path)
    net, head = _modules()
    net.register_forward_pre_hook(lambda *_: pytest.fail("trained or evaluated"))
    again = train(net, head, *blobs(), RECIPE, validation=validation, checkpoint=tmp_path)
    assert same(weights(net, head), expected)
    assert again == epochs


def test_run_that_ended_by_patience_stays_ended(tmp_path):
    X, y, validation, recipe = _overfitting()
    for _ in range(2):
        net, head = network(), FakeHead(6, 3)
        trained = run(net, head, X, y, recipe, validation=validation, patience=2, checkpoint=tmp_path)
        assert trained.ended == "patience"
    longer = run(network(), FakeHead(6, 3), X, y, recipe, validation=validation, checkpoint=tmp_path)
    assert len(longer.epochs) == recipe.epochs


def test_more_epochs_go_on_where_the_rate_is_constant(tmp_path):
    recipe = replace(RECIPE, schedule="constant")
    expected, _ = _undisturbed(recipe)
    train(*_modules(), *blobs(), replace(recipe, epochs=2), checkpoint=tmp_path)
    net, head = _modules()
    train(net, head, *blobs(), recipe, checkpoint=tmp_path)
    assert same(weights(net, head), expected)


def _other_network():
    return network(n_features=7), FakeHead(7, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": replace(RECIPE, rate=0.02)}, r"rate is 0\.02 now and was 0\.01"),
        ({"recipe": replace(RECIPE, epochs=7)}, "epochs is 7 now and was 6"),
        ({"recipe": replace(RECIPE, augment=lambda X, g: X)}, "augment is"),
        ({"X": blobs(seed=4)[0]}, "data is"),
        ({"y": blobs()[1].flip(0)}, "data is"),
        ({"validation": blobs(10)}, "validation is"),
        ({"modules": _other_network()}, "network is"),
    ],
    ids=["rate", "epochs", "augment", "rows", "labels", "validation", "network"],
)
def test_another_run_is_refused_and_left_alone(tmp_path, change, message):
    X, y = blobs()
    train(*_modules(), X, y, RECIPE, checkpoint=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    given = {"modules": _modules(), "X": X, "y": y, "recipe": RECIPE, "validation": None, **change}
    with pytest.raises(ValueError, match=message) as caught:
        train(*given.pop("modules"), **given, checkpoint=tmp_path)
    assert "resume=False" in str(caught.value)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_without_resume_a_run_starts_anew(tmp_path):
    train(*_modules(), *blobs(seed=7), replace(RECIPE, rate=0.5), checkpoint=tmp_path)
    expected, _ = _undisturbed()
    net, head = _modules()
    train(net, head, *blobs(), RECIPE, checkpoint=tmp_path, resume=False)
    assert same(weights(net, head), expected)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "best"])
def test_damaged_files_are_named(tmp_path, damage):
    train(*_modules(), *blobs(), RECIPE, checkpoint=tmp_path)
    last = tmp_path / "last.pt"
    if damage == "best":
        next(tmp_path.glob("best-*.pt")).unlink()
    else:
        content = last.read_bytes()
        last.write_bytes({"cut": content[:1000], "empty": b"", "noise": b"x" * 5000}[damage])
    with pytest.raises(ValueError, match=r"(last|best-\d+)\.pt is missing or damaged.*resume=False"):
        train(*_modules(), *blobs(), RECIPE, checkpoint=tmp_path)


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("code in a checkpoint was run",))


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    train(*_modules(), *blobs(), RECIPE, checkpoint=tmp_path)
    for content in (Evil(), {"format": 1, "run": Evil()}):
        torch.save(content, tmp_path / "last.pt", pickle_module=pickle)
        with pytest.raises(ValueError, match="damaged"):
            train(*_modules(), *blobs(), RECIPE, checkpoint=tmp_path)


def test_a_folder_that_cannot_be_is_told_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    net, head = _modules()
    net.register_forward_pre_hook(lambda *_: pytest.fail("trained"))
    with pytest.raises(OSError, match="file"):
        train(net, head, *blobs(), RECIPE, checkpoint=tmp_path / "file")


def test_interrupted_run_can_be_resumed(tmp_path):
    expected, _ = _undisturbed()
    inner, head = _modules()
    # Five batches of a first pass, then five an epoch: Ctrl-C in the middle of epoch 4.
    with pytest.warns(UserWarning, match="interrupted after 3 epochs"):
        train(Interrupts(inner, 5 + 3 * 5 + 2), head, *blobs(), RECIPE, checkpoint=tmp_path)
    net, head = Interrupts(_modules()[0], 10**6), FakeHead(6, 3)
    train(net, head, *blobs(), RECIPE, checkpoint=tmp_path)
    assert same(weights(net.inner, head), expected)
