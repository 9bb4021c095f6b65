"""Covariances with fixed inducing points, looked up where columns take few values."""

import pickle

import pytest
import torch

from bayesvm._core.kernels import resolve_kernel
from bayesvm._core.kernels.additive import AdditiveRBF
from bayesvm._core.kernels.compose import Scaled
from bayesvm._core.kernels.tabulated import _groups, _Tabulated, cross_to_inducing
from tests.problems import generator, normal, uniform


def _rows(n: int, seed: int) -> torch.Tensor:
    """Columns of 4, 13, 4, many and 2 values, not evenly spaced."""
    g = generator(seed)
    X = normal(n, 5, seed=seed)
    for d, size in ((0, 4), (1, 13), (2, 4), (4, 2)):
        X[:, d] = normal(size, seed=100 + d)[torch.randint(size, (n,), generator=g)]
    return X


def _params(kernel, X):
    """Other parameters than those of the start."""
    start = enumerate(kernel.init(X).items())
    return {k: v + 0.3 * uniform(v.numel(), seed=i).reshape(v.shape) for i, (k, v) in start}


@pytest.mark.parametrize("name", ["additive", "rbf+additive", "rbf", "additive*rbf", "rbf+additive+constant"])
def test_covariances_are_those_of_the_kernel(name):
    kernel = resolve_kernel(name, True)
    X, Z = _rows(800, 0), normal(7, 5, seed=1)
    params = _params(kernel, X)
    cross = cross_to_inducing(kernel, params, Z, X)
    new = _rows(300, 2)
    torch.testing.assert_close(cross(new), kernel.cross(params, new, Z), rtol=1e-13, atol=1e-14)
    again = pickle.loads(pickle.dumps(cross))
    assert torch.equal(again(new), cross(new))


def test_multiples_keep_their_factor():
    kernel = Scaled(AdditiveRBF(), 2.0)
    X, Z = _rows(800, 0), normal(7, 5, seed=1)
    params = _params(kernel, X)
    torch.testing.assert_close(cross_to_inducing(kernel, params, Z, X)(X), kernel.cross(params, X, Z))


def test_the_table_is_used_for_known_values_only():
    kernel = AdditiveRBF()
    X, Z = _rows(800, 0), normal(7, 5, seed=1)
    params = _params(kernel, X)
    cross = cross_to_inducing(kernel, params, Z, X)
    assert isinstance(cross, _Tabulated)
    assert sorted(cross.columns.tolist()) == [0, 1, 2, 4]
    assert cross.rest.tolist() == [3]
    cross.table.fill_(torch.nan)
    assert bool(cross(X).isnan().all())
    for value in (0.123, 99.0, -99.0):  # between two levels, above and below all of them
        new = X[:20].clone()
        new[7, 1] = value
        torch.testing.assert_close(cross(new), kernel.cross(params, new, Z))


def test_columns_with_many_values_have_no_table():
    X = normal(500, 3, seed=3)
    assert not isinstance(cross_to_inducing(AdditiveRBF(), AdditiveRBF().init(X), X[:4], X), _Tabulated)


def test_columns_share_tables_as_long_as_these_are_small():
    cards = {d: 13 if d % 2 else 4 for d in range(10)}
    groups = list(_groups(cards, 1024))
    assert len(groups) == 3
    assert sorted(d for group in groups for d in group) == list(range(10))
    assert list(_groups({0: 30, 1: 2}, 8)) == [[0], [1]]
