"""Pairs of rows and classes, grouped by class."""

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.gaussian import Gaussian
from bayesvm._core.grouping import ClassGroups, TiledPairs, Tiles, grouped_pairs, stable_order
from bayesvm._core.sites import Statistics, dense_statistics
from tests.problems import generator, normal, uniform

N, P = 40, 5


def _pairs(n_classes: int, columns: int, seed: int) -> torch.Tensor:
    return torch.randint(n_classes, (N, columns), generator=generator(seed))


def _gaussian(n_classes: int, seed: int) -> Gaussian:
    B = normal(n_classes, P, P, seed=seed)
    R = torch.linalg.cholesky(B @ B.mT + torch.eye(P, dtype=torch.float64))
    return Gaussian(normal(n_classes, P, seed=seed + 1), R)


# Tiles are what an accelerator uses; here too they must give the same.
WAYS = pytest.mark.parametrize("way", [ClassGroups, TiledPairs])


@WAYS
@pytest.mark.parametrize(("n_classes", "columns"), [(3, 2), (80, 2), (5, 1), (4, 3)])
def test_moments_of_pairs_are_picked_from_the_dense_moments(way, n_classes, columns):
    A, q, classes = normal(N, P, seed=0), _gaussian(n_classes, 1), _pairs(n_classes, columns, 3)
    mean, variance = way.of(A, classes, n_classes).moments(gaussian.roots(q))
    torch.testing.assert_close(mean, gaussian.mean(q, A).gather(1, classes))
    torch.testing.assert_close(variance, gaussian.variance(q, A).gather(1, classes))


@WAYS
@pytest.mark.parametrize(("n_classes", "columns"), [(3, 2), (80, 2), (5, 1), (4, 3)])
def test_statistics_of_pairs_are_the_dense_sums(way, n_classes, columns):
    A, classes = normal(N, P, seed=4), _pairs(n_classes, columns, 5)
    W, G = uniform(N, columns, seed=6), normal(N, columns, seed=7)
    zero = torch.zeros(N, n_classes, dtype=torch.float64)
    dense = dense_statistics(A, zero.scatter_add(1, classes, W), zero.scatter_add(1, classes, G))
    sums = Statistics.zeros(n_classes, P, A)
    way.of(A, classes, n_classes).add_statistics(W, G, sums)
    precision, linear = sums.precision, sums.linear
    torch.testing.assert_close(precision, dense[0])
    torch.testing.assert_close(linear, dense[1])


@WAYS
def test_classes_without_rows_get_nothing(way):
    A = normal(N, P, seed=8)
    classes = torch.full((N, 1), 2)
    ones = torch.ones(N, 1, dtype=torch.float64)
    sums = Statistics.zeros(4, P, A)
    way.of(A, classes, 4).add_statistics(ones, ones, sums)
    precision, linear = sums.precision, sums.linear
    assert not bool(precision[[0, 1, 3]].any())
    assert not bool(linear[[0, 1, 3]].any())
    torch.testing.assert_close(precision[2], A.mT @ A)


@WAYS
def test_moments_come_in_the_precision_of_q(way):
    A, q, classes = normal(N, P, seed=0), _gaussian(3, 1), _pairs(3, 2, 3)
    mean, variance = way.of(A, classes, 3).moments(gaussian.roots(q).to(torch.float32))
    assert mean.dtype == variance.dtype == torch.float32
    exact = gaussian.variance(q, A).gather(1, classes)
    torch.testing.assert_close(variance.double(), exact, rtol=1e-5, atol=1e-6)


def test_a_processor_gets_one_product_per_class():
    assert isinstance(grouped_pairs(normal(N, P, seed=0), _pairs(3, 2, 3), 3), ClassGroups)


@pytest.mark.parametrize("n_labels", [7, 300, 40_000])
def test_orders_are_stable_whatever_the_number_of_labels(n_labels):
    label = torch.randint(n_labels, (2000,), generator=generator(9))
    assert torch.equal(stable_order(label, n_labels), label.argsort(stable=True))


@pytest.mark.parametrize(("n", "n_groups", "size"), [(40, 3, 4), (40, 90, 4), (5, 1, 8), (64, 4, None)])
def test_every_item_has_a_slot_of_its_own_in_a_tile_of_its_group(n, n_groups, size):
    label = torch.randint(n_groups, (n,), generator=generator(10))
    tiles = Tiles.of(label, stable_order(label, n_groups), n_groups, size)
    slots = tiles.item.shape[0] // tiles.n_tiles
    assert torch.unique(tiles.slot).shape[0] == n
    assert torch.equal(tiles.item[tiles.slot], torch.arange(n))
    assert torch.equal(tiles.group[tiles.slot // slots], label)
    values = torch.arange(1.0, n + 1)
    assert torch.equal(tiles.back(tiles.gather(values)), values)
    spread = tiles.spread(values)
    assert float(spread.sum()) == float(values.sum())
    expected = torch.zeros(n_groups).index_add_(0, label, values)
    assert torch.equal(tiles.summed(spread).sum(1), expected)
