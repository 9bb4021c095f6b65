"""Neighbours against all distances, one by one."""

from __future__ import annotations

import pytest
import torch

from bayesvm._core import nearest as module
from bayesvm._core.nearest import nearest, tie_step
from tests.problems import normal


def _by_brute_force(X, queries, k, typical):
    """Stable order of rounded distances, from differences in double precision."""
    d2 = torch.stack([(X - q).square().sum(1) for q in queries])
    rows = (d2 / tie_step(typical)).round().sort(dim=1, stable=True).indices[:, :k]
    return rows, d2.gather(1, rows)


def _clusters():
    X = normal(900, 5, seed=1)
    X[::2] += 1e4
    return X


def _outlier():
    X = normal(700, 3, seed=2)
    X[11] = 1e6
    return X


PROBLEMS = {
    "plain": (normal(1500, 20, seed=0), 3.0),
    "wide": (normal(300, 400, seed=0), 20.0),
    "line": (normal(2000, 1, seed=0), 1e-3),
    "far from zero": (1000.0 + normal(700, 4, seed=3), 0.5),
    "clusters": (_clusters(), 0.5),
    "outlier": (_outlier(), 0.5),
    "many ties": (normal(1500, 2, seed=4).round() + 0.1, 1.0),
    "some ties": (normal(1500, 6, seed=5).mul(2).round() + 0.1, 1.0),
    "no typical distance": (normal(500, 4, seed=6), 0.0),
    "tiny": (1e-30 * normal(300, 4, seed=7), 1e-30),
    "huge": (1e30 * normal(300, 4, seed=8), 1e30),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("k", [1, 16])
def test_neighbours_are_the_nearest_rows_in_order(name, k, monkeypatch):
    X, typical = PROBLEMS[name]
    # Several tiles, blocks of products and of queries, none of them full.
    for size, value in {"_TILE": 400, "_QUERIES_OF_PRODUCT": 17, "_QUERIES": 50}.items():
        monkeypatch.setattr(module, size, value)
    queries = torch.cat([X[:90], 0.5 * (X[:40] + X[40:80])])
    near = nearest(X, queries, k, typical)
    rows, d2 = _by_brute_force(X, queries, k, typical)
    assert torch.equal(near.rows, rows)
    torch.testing.assert_close(near.d2, d2, rtol=1e-14, atol=0)


@pytest.mark.parametrize("size", [1e8, 1e18, 1e30, 1e100, 1e200])
def test_queries_far_away_get_as_many_rows_as_others(size):
    X = normal(400, 3, seed=0)
    queries = X[:40].clone()
    queries[5] *= size
    near = nearest(X, queries, 4, 1.0)
    rest = torch.arange(40) != 5
    assert torch.equal(near.rows[rest], _by_brute_force(X, queries[rest], 4, 1.0)[0])
    assert near.rows[5].unique().numel() == 4


def test_no_queries():
    near = nearest(normal(50, 3, seed=0), normal(0, 3, seed=1), 4, 1.0)
    assert near.rows.shape == near.d2.shape == (0, 4)


def test_as_many_neighbours_as_rows():
    X, queries = normal(40, 3, seed=0), normal(30, 3, seed=1)
    near = nearest(X, queries, 50, 1.0)
    assert torch.equal(near.rows, _by_brute_force(X, queries, 40, 1.0)[0])


def test_rough_products_leave_few_candidates():
    """Otherwise the search would be right and slow."""
    X = normal(5000, 20, seed=0)
    search = module._search(X, X, 16, 3.0)
    assert search.tiles.dtype == torch.float32
    query, row = search.candidates(X[:200], tie_step(3.0))
    assert len(query) < 2 * 16 * 200
    assert bool((query * 5000 + row).diff().gt(0).all())
    # Where single precision cannot tell rows apart, products are in double precision.
    assert module._search(X + 1e5, X + 1e5, 16, 3.0).tiles.dtype == torch.float64


def test_ties_go_to_the_first_rows_whatever_the_batch():
    X = torch.tensor([[0.1, 0.2]]).double().repeat(50, 1)
    X[10:] += 1.0
    queries = X[:30].clone()
    alone = torch.cat([nearest(X, q[None], 6, 1.0).rows for q in queries])
    assert torch.equal(nearest(X, queries, 6, 1.0).rows, alone)
    assert alone[0].tolist() == list(range(6))
    assert bool((nearest(X, queries, 6, 1.0).d2 == 0).all())
