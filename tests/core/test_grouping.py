"""Pairs of rows and classes, grouped by class."""

import pytest
import torch

from bayesvm.core import gaussian
from bayesvm.core.gaussian import Gaussian
from bayesvm.core.grouping import ClassGroups
from bayesvm.core.sites import Statistics, dense_statistics
from tests.problems import generator, normal, uniform

N, P = 40, 5


def _pairs(n_classes: int, columns: int, seed: int) -> torch.Tensor:
    return torch.randint(n_classes, (N, columns), generator=generator(seed))


def _gaussian(n_classes: int, seed: int) -> Gaussian:
    B = normal(n_classes, P, P, seed=seed)
    R = torch.linalg.cholesky(B @ B.mT + torch.eye(P, dtype=torch.float64))
    return Gaussian(normal(n_classes, P, seed=seed + 1), R)


@pytest.mark.parametrize(("n_classes", "columns"), [(3, 2), (80, 2), (5, 1), (4, 3)])
def test_moments_of_pairs_are_picked_from_the_dense_moments(n_classes, columns):
    A, q, classes = normal(N, P, seed=0), _gaussian(n_classes, 1), _pairs(n_classes, columns, 3)
    mean, variance = ClassGroups.of(A, classes, n_classes).moments(q)
    torch.testing.assert_close(mean, gaussian.mean(q, A).gather(1, classes))
    torch.testing.assert_close(variance, gaussian.variance(q, A).gather(1, classes))


@pytest.mark.parametrize(("n_classes", "columns"), [(3, 2), (80, 2), (5, 1), (4, 3)])
def test_statistics_of_pairs_are_the_dense_sums(n_classes, columns):
    A, classes = normal(N, P, seed=4), _pairs(n_classes, columns, 5)
    W, G = uniform(N, columns, seed=6), normal(N, columns, seed=7)
    zero = torch.zeros(N, n_classes, dtype=torch.float64)
    dense = dense_statistics(A, zero.scatter_add(1, classes, W), zero.scatter_add(1, classes, G))
    sums = Statistics.zeros(n_classes, P, A)
    ClassGroups.of(A, classes, n_classes).add_statistics(W, G, sums)
    precision, linear = sums.precision, sums.linear
    torch.testing.assert_close(precision, dense[0])
    torch.testing.assert_close(linear, dense[1])


def test_classes_without_rows_get_nothing():
    A = normal(N, P, seed=8)
    classes = torch.full((N, 1), 2)
    ones = torch.ones(N, 1, dtype=torch.float64)
    sums = Statistics.zeros(4, P, A)
    ClassGroups.of(A, classes, 4).add_statistics(ones, ones, sums)
    precision, linear = sums.precision, sums.linear
    assert not bool(precision[[0, 1, 3]].any())
    assert not bool(linear[[0, 1, 3]].any())
    torch.testing.assert_close(precision[2], A.mT @ A)
