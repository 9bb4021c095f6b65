"""Canonical rows: the same whatever the order, the repetitions, the units."""

import numpy as np
import pytest

from bayesvm._fit.rows import canonical_rows, hash_values, mix


def _data(n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 3)), 1)  # some ties within columns
    return X, rng.integers(0, 3, n), rng.uniform(0.5, 2.0, n)


def _same(a, b, weight_tolerance=0.0):
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.key, b.key)
    np.testing.assert_allclose(a.weight, b.weight, rtol=weight_tolerance)


def test_order_does_not_matter():
    X, y, w = _data()
    order = np.random.default_rng(1).permutation(50)
    a, b = canonical_rows(X, y, w, 0), canonical_rows(X[order], y[order], w[order], 0)
    _same(a, b)
    np.testing.assert_array_equal(a.index[order], b.index)


def test_a_row_given_twice_is_a_row_of_weight_two():
    X, y, _ = _data()
    times = 1 + np.arange(50) % 3
    a = canonical_rows(X, y, times.astype(float), 0)
    b = canonical_rows(np.repeat(X, times, 0), np.repeat(y, times), np.ones(times.sum()), 0)
    _same(a, b)


def test_rows_of_weight_zero_do_not_exist():
    X, y, w = _data()
    w[::4] = 0.0
    kept = w > 0
    a, b = canonical_rows(X, y, w, 0), canonical_rows(X[kept], y[kept], w[kept], 0)
    _same(a, b)
    assert (a.index[~kept] == -1).all()
    np.testing.assert_array_equal(a.index[kept], b.index)


@pytest.mark.parametrize("scale", [1e-12, 3.7, 1e12])
def test_units_do_not_change_order_or_keys(scale):
    X, y, w = _data()
    a = canonical_rows(X, y, w, 0)
    b = canonical_rows(scale * X + 5.0 * scale, y, w, 0)
    np.testing.assert_array_equal(a.key, b.key)
    np.testing.assert_array_equal(a.index, b.index)


def test_index_finds_every_row_again():
    X, y, w = _data()
    rows = canonical_rows(X, y, w, 0)
    np.testing.assert_array_equal(rows.X[rows.index], X)
    np.testing.assert_array_equal(rows.y[rows.index], y)
    assert rows.weight.sum() == pytest.approx(w.sum())


def test_equal_features_with_another_label_are_another_row():
    X = np.zeros((4, 2))
    rows = canonical_rows(X, np.array([0, 1, 0, 1]), np.ones(4), 0)
    assert sorted(rows.y) == [0, 1]
    np.testing.assert_array_equal(rows.weight, [2.0, 2.0])


def test_keys_increase_are_distinct_and_depend_on_the_seed():
    X, y, w = _data(500)
    X = X + np.arange(500)[:, None] * 1e-6
    a, b = canonical_rows(X, y, w, 0), canonical_rows(X, y, w, 1)
    assert (np.diff(a.key) > 0).all()
    assert (a.key >= 0).all()
    assert not np.array_equal(a.index, b.index)


def test_order_looks_random_with_respect_to_the_labels():
    X, _, w = _data(2000, seed=2)
    X = X + np.arange(2000)[:, None]
    y = np.repeat([0, 1], 1000)
    first = canonical_rows(X, y, w, 0).y[:1000].mean()
    assert first == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(1000))


def test_mix_scatters_neighbours_without_collisions():
    x = np.arange(100_000, dtype=np.uint64)
    mixed = mix(x)
    assert np.unique(mixed).size == x.size
    bits = (mixed[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    np.testing.assert_allclose(bits.mean(0), 0.5, atol=5 * 0.5 / np.sqrt(x.size))


def test_hash_of_values_does_not_depend_on_the_rows_around():
    X, y, _ = _data()
    whole = hash_values(X, y)
    np.testing.assert_array_equal(hash_values(X[10:20].copy(), y[10:20]), whole[10:20])
    assert np.unique(whole).size == np.unique(np.column_stack([X, y]), axis=0).shape[0]
    np.testing.assert_array_equal(hash_values(np.zeros((1, 2)), y[:1]), hash_values(-np.zeros((1, 2)), y[:1]))
