"""After training: q from all rows at once, and steps that do not forget."""

import math

import pytest
import torch
from torch import nn

from bayesvm.nn import BayesianSVMHead, HeadError, Recipe, settle, train
from tests.nn.fakes import FakeHead
from tests.nn.heads import posterior_of
from tests.problems import generator, labels, normal


def _rows(n=2000, n_classes=4, dim=6, spread=1.5):
    y = labels(n, n_classes, seed=1)
    return spread * normal(n_classes, dim, seed=2)[y] + normal(n, dim, seed=3), y


def _started(X, y, **options):
    head = BayesianSVMHead(X.shape[1], int(y.max()) + 1, 12, rivals="mean", **options).double()
    head.initialise(X, y)
    return head


def _ascended(X, y, **options):
    """q of a head that saw all rows in every one of many full steps."""
    head = _started(X, y, **options)
    for _ in range(60):
        head.settle(X, y, len(y), 0.3)
    return posterior_of(head)


@pytest.mark.parametrize("damping", [0.05, 0.5])
def test_q_comes_close_to_that_of_all_rows(damping):
    X, y = _rows()
    expected, _ = _ascended(X, y)
    head = _started(X, y, damping=damping).train()
    for _ in range(10):
        for i in torch.randperm(2000, generator=generator(5)).split(100):
            head.loss(X[i], y[i], 2000)
    before = (posterior_of(head)[0] - expected).norm()
    assert settle(nn.Identity(), head, X, y)
    after = (posterior_of(head)[0] - expected).norm()
    # q remembered about 3,900 and 300 rows before, and stands for 10,000 and 2,256 after.
    assert after < 0.7 * before


def test_every_row_has_the_same_weight(monkeypatch):
    """Weights of batches in the end: the length of their step, shrunk by all steps after it."""
    X, y = _rows(600)
    head = _started(X, y, kl_warmup=1000)
    lengths = []
    advance = head.q.advance

    def noted(pending, scale, weight, draw, length):
        assert weight == 1.0  # settling knows no warm-up
        lengths.append(length)
        advance(pending, scale, weight, draw, length)

    monkeypatch.setattr(head.q, "advance", noted)
    assert settle(nn.Identity(), head, X, y, batch_size=100)
    left = torch.tensor([1.0 - length for length in lengths], dtype=torch.float64)
    weights = torch.tensor(lengths, dtype=torch.float64) * left.flip(0).cumprod(0).flip(0) / left
    torch.testing.assert_close(weights, torch.full_like(weights, 100 / (600 + 100 * len(lengths))))
    assert head.kl_warmup == 1000


def test_other_layers_stay_as_they_are():
    X, y = _rows(200)
    head = _started(X, y, posterior="gradient")
    before = {k: v.clone() for k, v in head.state_dict().items()}
    assert not settle(nn.Identity(), head, X, y)
    assert all(torch.equal(v, before[k]) for k, v in head.state_dict().items())
    assert not settle(nn.Identity(), FakeHead(6, 4), X.float(), y)


def test_training_ends_with_it():
    X, y = _rows(600)
    X = X.float()
    plain, settled = (BayesianSVMHead(6, 4, 12) for _ in range(2))
    bodies = []
    for head, wanted in ((plain, False), (settled, True)):
        torch.manual_seed(0)
        bodies.append(nn.Linear(6, 6))
        train(bodies[-1], head, X, y, Recipe(epochs=1, settle=wanted))
    assert torch.equal(bodies[0].weight, bodies[1].weight)
    assert not torch.equal(plain.q.excess, settled.q.excess)
    settle(bodies[0], plain, X, y)
    assert torch.equal(plain.q.excess, settled.q.excess)


class _Breaks(nn.Linear):
    """Works in training; what happens to it elsewhere is up to the test."""

    def __init__(self, trouble):
        super().__init__(6, 6)
        self.trouble = trouble

    def forward(self, X):
        features = super().forward(X)
        return features if self.training else self.trouble(features)


def _interrupt(features):
    raise KeyboardInterrupt


def test_interrupted_while_settling_keeps_the_training():
    X, y = _rows(600)
    torch.manual_seed(0)
    head = BayesianSVMHead(6, 4, 12)
    with pytest.warns(UserWarning, match="interrupted"):
        epochs = train(_Breaks(_interrupt), head, X.float(), y, Recipe(epochs=2))
    assert len(epochs) == 2
    torch.manual_seed(0)
    plain = BayesianSVMHead(6, 4, 12)
    train(_Breaks(_interrupt), plain, X.float(), y, Recipe(epochs=2, settle=False))
    assert torch.equal(head.q.excess, plain.q.excess)


def test_a_network_that_fails_outside_of_training_is_reported_with_what_was_trained():
    X, y = _rows(600)
    network = _Breaks(lambda features: features * math.nan)
    with pytest.raises(HeadError, match="not finite") as caught:
        train(network, BayesianSVMHead(6, 4, 12), X.float(), y, Recipe(epochs=2))
    assert len(caught.value.trained.epochs) == 2


def test_undone_where_validation_rows_are_predicted_less_well():
    """Rows that say the opposite of the training rows cannot be served by learning more of these."""
    X, y = _rows(600, spread=4.0)
    X = X.float()
    validation = (X, (y + 1) % 4)
    heads = [BayesianSVMHead(6, 4, 12) for _ in range(2)]
    for head, wanted in zip(heads, (False, True), strict=True):
        torch.manual_seed(0)
        train(nn.Linear(6, 6), head, X, y, Recipe(epochs=1, settle=wanted), validation=validation)
    assert torch.equal(heads[0].q.excess, heads[1].q.excess)


def test_features_that_hardly_differ_at_first_do_not_leave_the_inducing_points_behind():
    """An untrained network of many layers gives nearly the same features to all rows."""
    X, y = _rows(1280, n_classes=10, dim=256, spread=1.0)
    X = X.float()
    torch.manual_seed(0)
    layers = [nn.Linear(256, 256), nn.ReLU()]
    for _ in range(5):
        layers += [nn.Linear(256, 256), nn.ReLU()]
    network, head = nn.Sequential(*layers, nn.Linear(256, 100), nn.ReLU()), BayesianSVMHead(100, 10)
    with torch.no_grad():
        features = nn.functional.layer_norm(network(X), (100,))
    assert (features - features.mean(0)).norm() < 0.1 * features.norm()
    epochs = train(network, head, X, y, Recipe(epochs=6), validation=(X, y))
    assert epochs[-1].validation_accuracy > 0.9
