"""The rows a kernel is learned from."""

import torch

from bayesvm._fit import defaults
from bayesvm._fit.kernel import learning_sample
from tests.problems import labels, normal, uniform


def test_few_rows_are_taken_as_they_are():
    X, y, w = normal(50, 2, seed=0), labels(50, 3, seed=1), uniform(50, seed=2, low=0.5)
    sample = learning_sample(X, y, w, 3)
    assert sample.scale == 1.0
    assert sample.n_classes == 3
    torch.testing.assert_close(sample.X, X.to(sample.X))
    assert torch.equal(sample.y, y)
    torch.testing.assert_close(sample.weight, w.to(sample.weight))


def test_many_rows_are_represented_by_the_first_with_their_total_weight(monkeypatch):
    monkeypatch.setattr(defaults, "SIZES", {0: defaults.Sizes(256, 40, 192)})
    X, y, w = normal(200, 2, seed=3), labels(200, 3, seed=4), uniform(200, seed=5, low=0.5, high=2.0)
    sample = learning_sample(X, y, w, 3)
    assert len(sample.X) == 40
    torch.testing.assert_close(sample.scale * sample.weight.double().sum(), w.sum(), rtol=1e-5, atol=0)


def test_with_many_classes_only_some_are_kept_and_renumbered(monkeypatch):
    monkeypatch.setattr(defaults, "LEARNING_CLASSES", 4)
    y = labels(300, 10, seed=6) + 0
    X = y[:, None].double() + torch.zeros(300, 2)
    sample = learning_sample(X, y, torch.ones(300).double(), 10)
    assert sample.n_classes == 4
    assert sorted(sample.y.unique().tolist()) == [0, 1, 2, 3]
    # A new number always means the same old class.
    for j in range(4):
        assert sample.X[sample.y == j, 0].unique().numel() == 1
