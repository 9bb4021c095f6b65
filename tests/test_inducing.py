"""Inducing points: deterministic, distinct, where the rows are."""

import pytest
import torch

from bayesvm._fit.kernel import choose_inducing
from tests.problems import normal, uniform


def test_few_distinct_rows_are_all_taken_once():
    X = normal(6, 2, seed=0)
    repeated = X[torch.tensor([0, 1, 1, 2, 0, 3, 4, 5, 5])]
    Z = choose_inducing(repeated, torch.ones(9).double(), 10)
    torch.testing.assert_close(Z, X)


def test_same_rows_same_points():
    X, w = normal(500, 3, seed=1), uniform(500, seed=2, low=0.5, high=2.0)
    assert torch.equal(choose_inducing(X, w, 20), choose_inducing(X.clone(), w.clone(), 20))


def test_points_are_distinct_and_as_many_as_asked():
    X = normal(300, 2, seed=3).round(decimals=1)
    Z = choose_inducing(X, torch.ones(300).double(), 25)
    assert Z.shape == (25, 2)
    assert torch.unique(Z, dim=0).shape[0] == 25


def test_points_quantise_the_rows_better_than_the_rows_they_start_from():
    X = normal(800, 2, seed=4)
    Z = choose_inducing(X, torch.ones(800).double(), 16)

    def distortion(Z):
        return float(torch.cdist(X, Z).amin(1).square().mean())

    assert distortion(Z) < 0.75 * distortion(X[:16])


def test_converged_points_are_weighted_means_of_their_rows():
    centres = torch.tensor([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]]).double()
    X = (centres.repeat(30, 1)) + normal(90, 2, seed=5)
    w = uniform(90, seed=6, low=0.1, high=5.0)
    Z = choose_inducing(X, w, 3)
    for j in range(3):
        rows = torch.arange(90) % 3 == j
        mean = (w[rows, None] * X[rows]).sum(0) / w[rows].sum()
        assert float((Z - mean).norm(dim=1).min()) < 1e-10


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_scale_of_the_weights_does_not_matter(factor):
    X, w = normal(200, 2, seed=7), uniform(200, seed=8, low=0.5, high=2.0)
    torch.testing.assert_close(choose_inducing(X, w, 12), choose_inducing(X, factor * w, 12))
