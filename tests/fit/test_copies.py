"""Which repeated rows are copies, and which repeat because columns take few values."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from bayesvm._fit import rows as canonical
from bayesvm._fit.rows import beyond_chance

from .test_rows import canonical_rows


def _copied(X, y, rows=None):
    rows = np.arange(len(y)) if rows is None else rows
    return beyond_chance(canonical_rows(X[rows], y[rows], np.ones(len(rows)), 0))


def _drawn(y, seed):
    """Rows drawn with replacement."""
    return np.random.default_rng(seed).integers(0, len(y), len(y))


def _measured(n=300, seed=1000):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.integers(0, 2, n)


def _one_hot(codes):
    return np.concatenate([np.eye(4)[column] for column in codes.T], axis=1)


@pytest.mark.parametrize("data", [_measured, lambda: load_wine(return_X_y=True)])
@pytest.mark.parametrize("how", ["with replacement", "twice", "one class five times"])
def test_copies_of_measurements_are_found(data, how):
    X, y = data()
    rows = {
        "with replacement": _drawn(y, 1001),
        "twice": np.repeat(np.arange(len(y)), 2),
        "one class five times": np.repeat(np.arange(len(y)), np.where(y == 1, 5, 1)),
    }[how]
    assert _copied(X, y, rows)
    assert not _copied(X, y)


def test_equal_flowers_are_no_copies():
    X, y = load_iris(return_X_y=True)
    assert len(np.unique(X, axis=0)) < len(X)
    assert not _copied(X, y)
    assert not _copied(X, y, np.r_[np.arange(150), :5])  # nor would a handful of real ones matter


@pytest.mark.parametrize("seed", range(1000, 1005))
@pytest.mark.parametrize("n", [100, 1000, 5000])
@pytest.mark.parametrize("kind", ["few values", "one hot", "skewed", "a class tells all columns", "rounded"])
def test_tables_whose_rows_repeat_by_nature_have_no_copies(kind, n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    codes = rng.choice(4, size=(n, 5), p=[0.4, 0.3, 0.2, 0.1])
    X = {
        "few values": codes,
        "one hot": _one_hot(codes),
        "skewed": rng.random((n, 12)) < 0.08,
        "a class tells all columns": np.where(rng.random((n, 6)) < 0.8, y[:, None], codes[:, :1]),
        "rounded": np.round(3.0 * rng.normal(size=(n, 2))),
    }[kind].astype(float)
    assert len(np.unique(X, axis=0)) < 0.95 * n
    assert not _copied(X, y)


def test_one_column_of_measurements_beside_many_of_few_values_tells():
    rng = np.random.default_rng(1000)
    X, y = np.column_stack([rng.random((300, 9)) < 0.1, rng.normal(size=300)]), rng.integers(0, 2, 300)
    assert not _copied(X, y)
    assert _copied(X, y, _drawn(y, 1001))


def test_equal_rows_of_other_labels_speak_against_copies():
    X, y = _measured()
    X, y = np.repeat(X, 6, 0), np.repeat(y, 6)
    assert _copied(X, y)
    y = np.random.default_rng(1002).integers(0, 3, len(y))
    assert not _copied(X, y)


def test_a_single_column_and_a_dozen_rows_tell_nothing():
    X, y = _measured()
    assert not _copied(X[:, :1], y, _drawn(y, 1001))
    assert not _copied(X[:12], y[:12], np.arange(3000) % 12)


def test_looking_at_fewer_rows_says_the_same(monkeypatch):
    monkeypatch.setattr(canonical, "_COMPARISONS", 5000)
    X, y = _measured()
    assert _copied(X, y, _drawn(y, 1001))
