"""The training loop, with a head that is not ours."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from bayesvm.nn import BayesianSVMHead, HeadError, _loop
from bayesvm.nn._loop import batch_order, evaluate, seed_of
from bayesvm.nn._train import Recipe, run, train
from tests.nn.fakes import FakeHead, blobs, network, same, weights


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "n_batches", "size"),
    [(50, 128, 1, 50), (130, 128, 2, 72), (500, 128, 4, 128), (65, 7, 10, 7), (9, 2, 5, 2), (3, 1, 3, 1)],
)
def test_batches_of_an_epoch_have_one_size_and_hold_every_row(n_rows, batch_size, n_batches, size):
    seen = []

    def augment(rows, generator):
        seen.append(rows[:, 0].long().tolist())
        return rows

    X, y = torch.arange(n_rows, dtype=torch.float32)[:, None].expand(-1, 4), torch.arange(n_rows) % 3
    head = FakeHead(6, 3)
    head.initialised.fill_(True)
    train(network(), head, X, y, Recipe(epochs=1, batch_size=batch_size, augment=augment))
    assert [len(batch) for batch in seen] == [size] * n_batches
    assert all(len(set(batch)) == size for batch in seen)  # no row twice in a batch
    assert {row for batch in seen for row in batch} == set(range(n_rows))


def _by_hand(net, head, X, y, recipe):
    """The loop as one would write it, for one part per batch."""
    net.train()
    head.train()
    order = batch_order(
        len(X), recipe.batch_size, torch.Generator().manual_seed(seed_of(recipe.seed, 0, _loop._ORDER))
    )
    head.initialise(torch.cat([net(X[index]).detach() for index in order]))
    decayed = [p for p in net.parameters() if p.ndim == 2]
    plain = [p for p in (*net.parameters(), *head.parameters()) if p.ndim != 2 or p is head.points]
    groups = [
        {"params": decayed, "weight_decay": recipe.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=recipe.rate)
    n_steps = order.shape[0] * recipe.epochs
    schedule = None
    if recipe.schedule == "one_cycle":
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, recipe.rate, total_steps=n_steps, cycle_momentum=False
        )
    objectives = []
    for epoch in range(1, recipe.epochs + 1):
        generator = torch.Generator().manual_seed(seed_of(recipe.seed, epoch, _loop._ORDER))
        losses = []
        for index in batch_order(len(X), recipe.batch_size, generator):
            loss = head.loss(net(X[index]), y[index], len(X))
            optimiser.zero_grad()
            loss.backward()
            if recipe.clip is not None:
                nn.utils.clip_grad_norm_([*net.parameters(), *head.parameters()], recipe.clip)
            optimiser.step()
            if schedule is not None and optimiser.state[plain[0]]["step"] < n_steps:
                schedule.step()
            losses.append(loss.item())
        objectives.append(np.mean(losses))
    return objectives


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(epochs=3, batch_size=32, rate=1e-2, seed=3),
        Recipe(epochs=2, batch_size=50, rate=1e-2, weight_decay=0.1, schedule="one_cycle", clip=0.5),
    ],
    ids=["plain", "all options"],
)
def test_equals_a_loop_written_by_hand(recipe):
    X, y = blobs()
    pairs = [(network(norm=True), FakeHead(6, 3)) for _ in range(2)]
    expected = _by_hand(*pairs[0], X, y, recipe)
    epochs = train(*pairs[1], X, y, recipe)
    theirs, ours = weights(*pairs[0]), weights(*pairs[1])
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose([e.objective for e in epochs], expected, rtol=1e-5)
    assert [e.number for e in epochs] == list(range(1, recipe.epochs + 1))
    assert all(e.seconds > 0 for e in epochs)
    assert epochs[-1].kl == pytest.approx(pairs[1][1].kl().item() / len(X))


def test_objective_is_divergence_minus_likelihood():
    X, y = blobs()
    head = FakeHead(6, 3)
    frozen = head.points.requires_grad_(False)  # its divergence then stays what it is
    epochs = train(network(), head, X, y, Recipe(epochs=2))
    for epoch in epochs:
        assert epoch.kl == pytest.approx(float(0.5 * frozen.square().sum()) / len(X), rel=1e-5)
        assert epoch.objective == pytest.approx(epoch.kl - epoch.likelihood, rel=1e-5)


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_a_batch_make_the_same_step(parts):
    X, y = blobs(n_rows=190)  # batches of 38, which three does not divide
    results = []
    for recipe in (Recipe(epochs=3, batch_size=40), Recipe(epochs=3, batch_size=40, parts=parts)):
        net, head = network(), FakeHead(6, 3, noise=0.0)
        epochs = train(net, head, X, y, recipe)
        results.append((weights(net, head), epochs[-1]))
        assert head.collected == []
    for name, value in results[0][0].items():
        torch.testing.assert_close(results[1][0][name], value, rtol=1e-4, atol=1e-5)
    assert results[0][1].objective == pytest.approx(results[1][1].objective, rel=1e-5)
    assert results[0][1].likelihood == pytest.approx(results[1][1].likelihood, rel=1e-5)


def test_fewer_rows_than_parts():
    X, y = blobs(5)
    epochs = train(network(), FakeHead(6, 3), X, y, Recipe(epochs=1, parts=8))
    assert math.isfinite(epochs[0].objective)


def test_same_seed_same_result_and_the_users_random_numbers_are_left_alone():
    X, y = blobs()
    results = []
    for seed, disturbance in ((1, 5), (1, 7), (2, 5)):
        torch.manual_seed(disturbance)
        before = torch.get_rng_state()
        net, head = network(dropout=0.3), FakeHead(6, 3)
        train(net, head, X, y, Recipe(epochs=2, seed=seed, augment=_jitter))
        assert torch.equal(before, torch.get_rng_state())
        results.append(weights(net, head))
    assert same(results[0], results[1])
    assert not same(results[0], results[2])


def _jitter(X, generator):
    return X + 0.1 * torch.randn(X.shape, generator=generator)


def test_augmentation_is_for_training_alone():
    X, y = blobs()
    seen = []

    def augment(rows, generator):
        assert isinstance(generator, torch.Generator)
        seen.append(len(rows))
        return rows + 100.0

    net = network()
    inputs = []
    net.register_forward_pre_hook(
        lambda module, args: inputs.append((module.training, args[0].mean().item()))
    )
    train(
        net,
        FakeHead(6, 3),
        X,
        y,
        Recipe(epochs=1, batch_size=64, augment=augment),
        validation=blobs(50, seed=1),
    )
    assert seen == [50] * 8  # four batches of a first pass, four of the epoch
    assert all((mean > 50) == training for training, mean in inputs)
    assert {training for training, _ in inputs} == {True, False}


def test_validation_scores_are_those_of_scikit_learn_whatever_the_blocks():
    X, y = blobs(spread=3.0)
    Xv, yv = blobs(90, seed=1, spread=3.0)
    net, head = network(), FakeHead(6, 3)
    epochs = train(net, head, X, y, Recipe(epochs=2), validation=(Xv, yv), keep="last")
    with torch.no_grad():
        p = head(net(Xv)).probabilities().numpy()
    assert epochs[-1].validation_accuracy == accuracy_score(yv, p.argmax(1))
    assert epochs[-1].validation_log_loss == pytest.approx(log_loss(yv, p))
    for rows in (1, 7, 90):
        assert evaluate(net, head, Xv, yv, rows=rows) == pytest.approx(
            (epochs[-1].validation_accuracy, epochs[-1].validation_log_loss), rel=1e-5
        )
    assert not net.training
    assert not head.training


def test_tempered_validation_finds_the_temperature_of_least_log_loss():
    X, y = blobs(spread=2.0)
    validation = blobs(300, seed=1, spread=2.0)
    results = []
    for temper in (False, True):
        net, head = network(), FakeHead(6, 3)
        epochs = train(net, head, X, y, Recipe(epochs=8, rate=1e-2), validation=validation, temper=temper)
        results.append((weights(net), epochs, head))
    (plain, plain_epochs, untouched), (tempered, epochs, head) = results
    assert float(untouched.temperature) == 2.0
    assert same(plain, tempered)  # training knows nothing of temperatures
    for a, b in zip(epochs, plain_epochs, strict=True):
        assert a.objective == b.objective
        assert a.validation_log_loss <= b.validation_log_loss + 1e-3
    best = min(e.validation_log_loss for e in epochs)
    found = float(head.temperature)
    for factor in (0.8, 1.0, 1.25):
        head.temperature.fill_(factor * found)
        loss = evaluate(net, head, *validation)[1]
        assert loss == pytest.approx(best, abs=1e-6) if factor == 1.0 else loss > best - 1e-4


class Remember:
    """States after each epoch."""

    def __init__(self, *modules, then=None):
        self.modules, self.states, self.then = modules, [], then

    def __call__(self, epoch):
        self.states.append(weights(*self.modules))
        return self.then(epoch) if self.then else None


def _overfitting():
    """Few noisy rows and a high rate: validation soon gets worse."""
    X, y = blobs(30, spread=4.0)
    return X, y, blobs(200, seed=1, spread=4.0), Recipe(epochs=12, batch_size=15, rate=0.03)


def test_best_epoch_is_kept():
    X, y, validation, recipe = _overfitting()
    net, head = network(), FakeHead(6, 3)
    remember = Remember(net, head)
    trained = run(net, head, X, y, recipe, validation=validation, on_epoch=remember)
    losses = [e.validation_log_loss for e in trained.epochs]
    best = int(np.argmin(losses))
    assert 0 < best + 1 < recipe.epochs
    assert trained.kept == best + 1
    assert trained.ended == "finished"
    assert same(weights(net, head), remember.states[best])
    assert evaluate(net, head, *validation)[1] == pytest.approx(losses[best])


def test_last_epoch_is_kept_if_asked_for_or_nothing_is_known():
    X, y, validation, recipe = _overfitting()
    for arguments in ({"validation": validation, "keep": "last"}, {}):
        net, head = network(), FakeHead(6, 3)
        remember = Remember(net, head)
        trained = run(net, head, X, y, recipe, on_epoch=remember, **arguments)
        assert trained.kept == recipe.epochs
        assert same(weights(net, head), remember.states[-1])


def test_patience():
    X, y, validation, recipe = _overfitting()
    full = train(network(), FakeHead(6, 3), X, y, recipe, validation=validation)
    trained = run(network(), FakeHead(6, 3), X, y, recipe, validation=validation, patience=2)
    losses = [e.validation_log_loss for e in full]
    ends = next(k for k in range(3, 13) if min(losses[k - 2 : k]) > min(losses[: k - 2]))
    assert trained.ended == "patience"
    assert [e.validation_log_loss for e in trained.epochs] == losses[:ends]
    assert trained.kept == int(np.argmin(losses[:ends])) + 1


def test_on_epoch_can_end_training():
    X, y = blobs()
    trained = run(network(), FakeHead(6, 3), X, y, Recipe(epochs=9), on_epoch=lambda e: e.number == 2)
    assert (len(trained.epochs), trained.ended) == (2, "asked")


class Interrupts(nn.Module):
    """Raises at a forward pass in training mode."""

    def __init__(self, inner, at, error=KeyboardInterrupt):
        super().__init__()
        self.inner, self.left, self.error = inner, at, error

    def forward(self, x):
        if self.training:
            self.left -= 1
            if self.left < 0:
                raise self.error
        return self.inner(x)


def test_interruption_keeps_the_best_so_far():
    X, y, validation, recipe = _overfitting()
    # A first pass of two batches, then two batches an epoch: in the middle of epoch 8.
    net, head = Interrupts(network(), 2 + 7 * 2 + 1), FakeHead(6, 3)
    remember = Remember(net, head)
    with pytest.warns(UserWarning, match="interrupted after 7 epochs"):
        epochs = train(net, head, X, y, recipe, validation=validation, on_epoch=remember)
    assert len(epochs) == 7
    best = int(np.argmin([e.validation_log_loss for e in epochs]))
    assert same(weights(net, head), remember.states[best])
    assert not net.training


def test_interruption_before_the_first_epoch_is_raised():
    X, y = blobs()
    with pytest.raises(KeyboardInterrupt):
        train(Interrupts(network(), 3), FakeHead(6, 3), X, y, Recipe(batch_size=20))


class Poisoned(nn.Module):
    def __init__(self, inner, at):
        super().__init__()
        self.inner, self.left = inner, at

    def forward(self, x):
        self.left -= self.training
        return self.inner(x) * (math.nan if self.training and self.left < 0 else 1.0)


def test_nan_ends_with_the_heads_error_and_the_best_state():
    X, y, validation, recipe = _overfitting()
    net, head = Poisoned(network(), 2 + 5 * 2), FakeHead(6, 3)
    remember = Remember(net, head)
    with pytest.raises(HeadError, match="lower the rate") as caught:
        train(net, head, X, y, recipe, validation=validation, on_epoch=remember)
    trained = caught.value.trained
    assert len(trained.epochs) == 5
    assert trained.ended == "failed"
    assert same(weights(net, head), remember.states[trained.kept - 1])
    assert f"epoch {trained.kept}" in caught.value.__notes__[0]


def test_nan_that_the_head_does_not_see_is_an_error_too():
    X, y = blobs()
    head = FakeHead(6, 3)
    head.check = lambda: None
    with pytest.raises(HeadError, match=r"non-finite numbers in epoch 1.*clip=1") as caught:
        train(Poisoned(network(), 9), head, X, y, Recipe(batch_size=20))
    assert caught.value.trained is None


def test_network_in_bf16_and_head_in_single_precision():
    X, y = blobs()
    net = network()
    seen = set()
    net[2].register_forward_hook(lambda module, args, out: seen.add(out.dtype))
    recipe = Recipe(epochs=20, rate=1e-2, precision="bf16")
    epochs = train(net, FakeHead(6, 3), X, y, recipe)
    assert seen == {torch.bfloat16}
    assert all(p.dtype == torch.float32 for p in net.parameters())
    exact = train(network(), FakeHead(6, 3), X, y, replace(recipe, precision="float32"))
    assert epochs[-1].objective == pytest.approx(exact[-1].objective, rel=0.02)
    assert epochs[-1].objective < 0.5 * epochs[0].objective


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside the compiler
def test_compiled_step_gives_the_same(monkeypatch):
    """Captured by dynamo; what inductor makes of it is inductor's business."""
    plain = torch.compile
    modes = []

    def with_eager_backend(function, mode):
        modes.append(mode)
        return plain(function, backend="eager")

    monkeypatch.setattr(torch, "compile", with_eager_backend)
    X, y = blobs()
    results = []
    for compiled in (False, True, "reduce-overhead"):
        net, head = network(), FakeHead(6, 3, noise=0.0)
        train(net, head, X, y, Recipe(epochs=2, compile=compiled))
        results.append(weights(net, head))
    assert modes == [None, "reduce-overhead"]
    for other in results[1:]:
        for name, value in results[0].items():
            torch.testing.assert_close(other[name], value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside the compiler
def test_runs_with_our_head_are_one_graph(monkeypatch):
    from torch._dynamo.utils import counters

    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, mode: plain(function, backend="eager"))
    torch._dynamo.reset()
    X, y = blobs(400)
    results = []
    for compiled in (True, False):
        net, head = network(), BayesianSVMHead(6, 3, 8)
        counters.clear()
        for _ in range(3):  # run after run
            train(net, head, X, y, Recipe(epochs=2, compile=compiled))
        if compiled:
            assert counters["stats"]["unique_graphs"] == 1
            assert not counters["graph_break"]
        results.append(weights(net, head))
    for name, value in results[0].items():
        torch.testing.assert_close(results[1][name], value)


class CountsReads(TorchDispatchMode):
    """Numbers that the host asks a device for."""

    def __init__(self):
        super().__init__()
        self.reads = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.reads += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_steps_do_not_wait_for_the_device():
    X, y = blobs()
    counts = []
    for batch_size in (100, 10):
        net, head = network(), FakeHead(6, 3, noise=0.0)
        head.initialise(net(X).detach())
        # torch's Adam keeps its step count on the CPU and reads it there, where nothing waits.
        made = _loop.Loop(net, head, X, y, Recipe(batch_size=batch_size), torch.device("cpu"))
        made.optimiser.step = lambda: None
        with CountsReads() as mode:
            made.epoch(1, None)
        counts.append(mode.reads)
    assert counts[0] == counts[1] > 0


def test_whole_numbers_reach_the_network_as_they_are():
    X, y = blobs()
    images = (20 * X + 128).clamp(0, 255).to(torch.uint8)

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x):
            assert x.dtype == torch.uint8
            return self.inner(x.float() / 50.0 - 2.5)

    epochs = train(Scaled(), FakeHead(6, 3), images, y, Recipe(epochs=40, rate=1e-2), validation=(images, y))
    assert epochs[-1].validation_accuracy > 0.8


def test_head_is_started_once():
    X, y = blobs()
    net, head = network(), FakeHead(6, 3)
    train(net, head, X, y, Recipe(epochs=1))
    assert head.starts == 1
    shift = head.shift.clone()
    train(net, head, X, y, Recipe(epochs=1))
    assert head.starts == 1
    assert torch.equal(shift, head.shift)


def test_a_network_without_parameters_will_do():
    X, y = blobs()
    epochs = train(nn.Identity(), FakeHead(4, 3), X, y, Recipe(epochs=30, rate=0.05), validation=(X, y))
    assert epochs[-1].validation_accuracy > 0.8
    head = FakeHead(4, 3)
    head.points.requires_grad_(False)
    with pytest.raises(ValueError, match="parameter to train"):
        train(nn.Identity(), head, X, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": 2.5}, r"batch_size=2\.5"),
        ({"rate": math.nan}, "rate=nan"),
        ({"rate": 0}, "rate=0"),
        ({"weight_decay": -1}, "weight_decay=-1"),
        ({"schedule": "cosine"}, "one_cycle"),
        ({"precision": "fp16"}, "bf16"),
        ({"clip": 0.0}, r"clip=0\.0"),
        ({"augment": 3}, "augment=3"),
        ({"seed": -1}, "seed=-1"),
        ({"batch_size": 4, "parts": 5}, "parts=5"),
    ],
    ids=str,
)
def test_recipe_refuses_what_cannot_work(change, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**change)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": blobs()[1][:-1]}, "one class index"),
        ({"y": blobs()[1].float()}, "int64"),
        ({"X": blobs()[0][:0], "y": blobs()[1][:0]}, "no rows"),
        ({"validation": (blobs()[0], blobs()[1][:5])}, "validation y"),
        ({"patience": 2}, "needs validation rows"),
        ({"keep": "first"}, "keep='first'"),
        ({"temper": True}, "needs validation rows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_train_refuses_what_cannot_work(arguments, message):
    X, y = blobs()
    arguments = {"X": X, "y": y, **arguments}
    net, head = network(), FakeHead(6, 3)
    before = copy.deepcopy(weights(net, head))
    with pytest.raises(ValueError, match=message):
        train(net, head, **arguments)
    assert same(before, weights(net, head))
