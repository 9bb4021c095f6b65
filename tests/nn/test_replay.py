"""Steps replayed as CUDA graphs do what plain steps do. What needs no GPU is tested everywhere."""

import pytest
import torch
from torch import nn

from bayesvm.nn import BayesianSVMHead, HeadError, Recipe, train
from bayesvm.nn._posterior import inverse_by_halves
from tests.nn.fakes import FakeHead
from tests.problems import labels, normal

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
MANY = {"n_classes": 300, "n_inducing": 64}


def _rows(n_classes=4, n=512):
    y = labels(n, n_classes, seed=1)
    X = 2.0 * normal(n_classes, 6, seed=2)[y] + normal(n, 6, seed=3)
    return X.float().cuda(), y.cuda()


def _trained(graph, n_classes=4, n_inducing=12, head=None, **options):
    X, y = _rows(n_classes)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8)).cuda()
    if head is None:
        head = BayesianSVMHead(8, n_classes, n_inducing).cuda()
    settings = {"epochs": 3, "batch_size": 64, "deterministic": True, "schedule": "one_cycle", **options}
    epochs = train(network, head, X, y, Recipe(graph=graph, **settings), validation=(X, y), keep="last")
    return epochs, network, head


@needs_gpu
@pytest.mark.parametrize(
    "options", [{}, {"parts": 2}, {"clip": 0.5}, MANY, {"weight_decay": 0.1}], ids=lambda o: str(list(o))
)
@pytest.mark.parametrize("posterior", ["natural", "gradient"])
def test_as_plain_steps(options, posterior):
    n_classes, n_inducing = options.get("n_classes", 4), options.get("n_inducing", 12)
    rest = {k: v for k, v in options.items() if k not in MANY}
    found = []
    for graph in (False, True):
        head = BayesianSVMHead(8, n_classes, n_inducing, posterior=posterior).cuda()
        found.append(_trained(graph, n_classes, n_inducing, head, **rest))
    (plain, network, _), (replayed, again, _) = found
    for a, b in zip(plain, replayed, strict=True):
        assert b.objective == pytest.approx(a.objective, rel=1e-3)
        assert b.validation_log_loss == pytest.approx(a.validation_log_loss, rel=1e-2)
    torch.testing.assert_close(again[0].weight, network[0].weight, atol=1e-3, rtol=1e-3)


@needs_gpu
def test_a_softmax_layer_too():
    plain, replayed = (_trained(graph, head=FakeHead(8, 4, noise=0.0).cuda())[0] for graph in (False, True))
    assert replayed[-1].objective == pytest.approx(plain[-1].objective, rel=1e-4)


@needs_gpu
def test_predictions_follow_what_a_replay_has_moved():
    _, network, head = _trained(True)
    X, _ = _rows()
    with torch.no_grad():
        before = head(network(X)).mean
        head.train()
        head.eval()
        after = head(network(X)).mean
    torch.testing.assert_close(before, after)


class _Looks(nn.Linear):
    def forward(self, X):
        return super().forward(X) * float(X.mean().item() < 1e9)


@needs_gpu
def test_a_network_that_looks_at_numbers_is_refused_and_the_head_stays_usable():
    X, y = _rows()
    network, head = _Looks(6, 8).cuda(), BayesianSVMHead(8, 4, 12).cuda()
    with pytest.raises(RuntimeError, match="graph=False"):
        train(network, head, X, y, Recipe(epochs=1, batch_size=64, graph=True))
    torch.cuda.synchronize()
    epochs = train(network, head, X, y, Recipe(epochs=2, batch_size=64), validation=(X, y))
    assert epochs[-1].validation_accuracy > 0.5


@needs_gpu
def test_resumes(tmp_path):
    expected = _trained(True)[0]

    def stop(epoch):
        return epoch.number == 1

    X, y = _rows()
    recipe = Recipe(epochs=3, batch_size=64, deterministic=True, schedule="one_cycle", graph=True)
    for on_epoch in (stop, None):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8)).cuda()
        head = BayesianSVMHead(8, 4, 12).cuda()
        epochs = train(
            *(network, head, X, y, recipe),
            validation=(X, y),
            keep="last",
            checkpoint=tmp_path,
            on_epoch=on_epoch,
        )
    assert epochs[-1].objective == pytest.approx(expected[-1].objective, rel=1e-3)


def test_noise_made_beforehand_is_that_of_the_rows():
    head = BayesianSVMHead(6, 4, 12).double()
    X, y = normal(40, 6, seed=1), labels(40, 4, seed=2)
    head.initialise(X, y)
    head.train()
    expected = head.loss(X, y, 40)
    again = BayesianSVMHead(6, 4, 12).double()
    again.initialise(X, y)
    ready = again._prepared(40)
    assert ready.noise.shape == (40, 4)
    again._prepared = lambda: ready
    assert torch.equal(again.train().loss(X, y, 40), expected)
    assert torch.equal(again.q.linear, head.q.linear)
    again._prepared = lambda: ready._replace(noise=ready.noise.flip(0))
    other = again.loss(X, y, 40)
    assert not torch.equal(other, head.loss(X, y, 40))


def test_no_difference_on_a_cpu():
    X, y = normal(60, 5, seed=1).float(), labels(60, 3, seed=2)
    found = []
    for graph in (False, True):
        torch.manual_seed(0)
        found.append(train(nn.Linear(5, 8), BayesianSVMHead(8, 3, 6), X, y, Recipe(epochs=2, graph=graph)))
    assert [e.objective for e in found[0]] == [e.objective for e in found[1]]


def test_other_graphs_are_not_recorded_within():
    with pytest.raises(ValueError, match="graphs of its own"):
        Recipe(graph=True, compile="reduce-overhead")


def test_beside_wants_a_head_that_was_started():
    with pytest.raises(HeadError, match="initialise"), BayesianSVMHead(4, 3).beside(None):
        pass


@pytest.mark.parametrize("n", [1, 64, 65, 130, 256])
def test_triangular_inverses_of_gpus(n):
    L = normal(3, n, n, seed=n).tril(-1) / n + torch.eye(n, dtype=torch.float64)
    found = inverse_by_halves(L)
    torch.testing.assert_close(found @ L, torch.eye(n, dtype=torch.float64).expand(3, n, n))
    assert torch.equal(found, found.tril())
