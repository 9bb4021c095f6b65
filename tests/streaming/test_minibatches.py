"""Natural gradients on minibatches of rows that are read one after the other."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from bayesvm import BayesianSVC
from bayesvm._core.features import Features
from bayesvm._fit import defaults
from bayesvm._fit import sweeps as minibatches
from bayesvm._fit.sweeps import Mixed
from bayesvm._inference.blocks import Block

N = 3000


@pytest.fixture(autouse=True)
def short_pools(monkeypatch):
    monkeypatch.setattr(defaults, "IN_MEMORY_ROWS", 1000)
    monkeypatch.setattr(minibatches, "_POOL_ROWS", 700)


def blocks_of(n, size):
    A = torch.arange(float(n))[:, None]
    y = torch.arange(n) % 2
    for start in range(0, n, size):
        rows = slice(start, start + size)
        yield Block(rows, Features(A[rows], A[rows, 0]), y[rows], torch.ones(n)[rows], torch.arange(n)[rows])


@pytest.mark.parametrize("size", [7, 100, 5000])
def test_all_rows_once_in_batches_that_chunks_do_not_change(size):
    mixed = Mixed(60, 3, 1, torch.tensor([0.5, 0.5]))
    batches = list(mixed.batches(blocks_of(2000, size)))
    expected = list(mixed.batches(blocks_of(2000, 2000)))
    for found, other in zip(batches, expected, strict=True):
        assert torch.equal(found.features.A, other.features.A)
    assert torch.equal(torch.cat([b.key for b in batches]).sort().values, torch.arange(2000))
    for b in batches:
        assert torch.equal(b.features.A[:, 0].long(), b.key)
        assert torch.equal(b.y, b.key % 2)
        assert 50 <= len(b.key) <= 75
    # Rows of a pool are mixed, and otherwise in every epoch.
    first = torch.cat([b.key for b in batches[:12]])
    assert set(first.tolist()) == set(range(700))
    assert (first.diff() == 1).float().mean() < 0.05
    other = next(iter(Mixed(60, 3, 2, mixed.shares).batches(blocks_of(2000, size))))
    assert len(set(other.key.tolist()) & set(batches[0].key.tolist())) < 30


def blobs(n=N, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 2)) + np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])[y], y


def chunked(X, y, size):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


def natural(X, y=None, **options):
    return BayesianSVC(20, batch_size=100, random_state=0, max_iter=40, **options).fit(X, y)


def test_the_posterior_is_near_that_of_full_sweeps_whatever_the_chunks():
    X, y = blobs()
    X_new, y_new = blobs(500, seed=1)
    one = natural(chunked(X, y, 250))
    assert_allclose(natural(chunked(X, y, 1111)).predict_proba(X_new), one.predict_proba(X_new), atol=1e-7)
    assert_allclose(natural(X, y).predict_proba(X_new), one.predict_proba(X_new), atol=1e-7)
    sweeps = BayesianSVC(20, random_state=0).fit(chunked(X, y, 250))
    assert_allclose(one.predict_proba(X_new), sweeps.predict_proba(X_new), atol=0.03)
    assert abs(one.score(X_new, y_new) - sweeps.score(X_new, y_new)) < 0.01
    assert one.elbo_curve_[-1] > one.elbo_curve_[0]


def test_sorted_rows_are_refused(monkeypatch):
    monkeypatch.setattr("bayesvm._fit.fitting._FEWEST_SAMPLED", 800)
    monkeypatch.setattr("bayesvm._fit.fitting._ROWS_PER_POINT", 8)
    X, y = blobs()
    order = np.argsort(y, kind="stable")
    with pytest.raises(ValueError, match="rows seem to be sorted"):
        natural(chunked(X[order], y[order], 250))
