"""Rows of a fit, merged, ordered and standardised: the same whatever their order, repetitions and units."""

from dataclasses import replace

import numpy as np
import pytest

from bayesvm._fit.engine import Chunk
from bayesvm._fit.passes import Encoding, Sample
from bayesvm._fit.rows import Extent, mix, row_keys


def _sample(X, y, weight, seed):
    """What the pass over one chunk makes of the rows."""
    used = weight > 0
    classes = np.unique(y)
    encoding = Encoding(classes, np.ones(len(classes)), Extent.of(X[used]), seed)
    return Sample(encoding, len(y))(Chunk(X, y, weight)), encoding.extent


def canonical_rows(X, y, weight, seed):
    return _sample(X, y, weight, seed)[0].rows


def fit_scaler(X, weight):
    sums, extent = _sample(X, np.zeros(len(X), dtype=np.int64), weight, 0)
    return sums.moments.scaler(extent)


def _data(n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 3)), 1)  # some ties within columns
    return X, rng.integers(0, 3, n), rng.uniform(0.5, 2.0, n)


def _same(a, b, weight_tolerance=0.0):
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.key, b.key)
    np.testing.assert_allclose(a.weight, b.weight, rtol=weight_tolerance)


def test_equal_rows_are_counted_whatever_they_weigh():
    X, y, w = _data()
    rows = canonical_rows(np.repeat(X, 2, 0), np.repeat(y, 2), np.stack([w, 3.0 * w], 1).ravel(), 0)
    np.testing.assert_array_equal(rows.count, 2)
    np.testing.assert_allclose(rows.unit[rows.index[::2]], 2.0 * w)
    np.testing.assert_array_equal(replace(rows, copied=True).unit, rows.weight)
    np.testing.assert_array_equal(canonical_rows(X, y, 2.0 * w, 0).count, 1)


def test_counts_add_up_over_chunks_and_follow_their_rows():
    X, y, w = _data()
    times = 1 + np.arange(50) % 3
    X, y, w = (np.repeat(a, times, 0) for a in (X, y, w))
    whole = canonical_rows(X, y, w, 0)
    encoding = Encoding(np.unique(y), np.ones(3), Extent.of(X), 0)
    work = Sample(encoding, len(y))
    parts = work(Chunk(X[:33], y[:33], w[:33])).plus(work(Chunk(X[33:], y[33:], w[33:]))).rows
    np.testing.assert_array_equal(parts.count, whole.count)
    np.testing.assert_array_equal(whole.count[whole.index], np.repeat(times, times))
    np.testing.assert_array_equal(whole.head(7).count, whole.count[:7])


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
    np.testing.assert_array_equal(a.index, b.index)


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


def test_key_does_not_depend_on_the_rows_around():
    X, y, _ = _data()
    whole = row_keys(X, y)
    np.testing.assert_array_equal(row_keys(X[10:20].copy(), y[10:20]), whole[10:20])
    assert np.unique(whole).size == np.unique(np.column_stack([X, y]), axis=0).shape[0]
    np.testing.assert_array_equal(row_keys(np.zeros((1, 2)), y[:1]), row_keys(-np.zeros((1, 2)), y[:1]))


def test_different_rows_of_one_key_stay_apart_and_keep_their_order():
    # Closer together than a key can tell, in a column that has a far value.
    near = np.arange(20)[:, None] * 1e-12
    X = np.concatenate([near, near, [[1.0]]])
    order = np.random.default_rng(0).permutation(len(X))
    y, w = np.zeros(len(X), dtype=np.int64), np.ones(len(X))
    a, b = canonical_rows(X, y, w, 0), canonical_rows(X[order], y[order], w[order], 0)
    assert len(a.y) == 21
    assert np.unique(a.key).size < 21
    _same(a, b)
    np.testing.assert_array_equal(a.X[a.index], X)


@pytest.mark.parametrize("largest", [1.0, 1e308])
def test_positions_in_a_column_are_those_in_other_units(largest):
    X = largest * np.random.default_rng(0).uniform(-1.0, 1.0, (40, 2))
    U = Extent.of(X).position(X)
    assert U.min() == 0.0
    assert U.max() == 1.0
    np.testing.assert_allclose(Extent.of(X / 3.7).position(X / 3.7), U, atol=1e-14)


def _unscaled():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, -1.0], rng.uniform(0.2, 3.0, 40)


def test_weighted_mean_is_zero_and_weighted_variance_one():
    X, w = _unscaled()
    Z = fit_scaler(X, w).transform(X)
    np.testing.assert_allclose(w @ Z, 0.0, atol=1e-9)
    np.testing.assert_allclose(w @ Z**2 / w.sum(), 1.0, atol=1e-9)


def test_whole_weights_are_repetitions():
    X, _ = _unscaled()
    times = 1 + np.arange(40) % 3
    a = fit_scaler(X, times.astype(float))
    b = fit_scaler(np.repeat(X, times, 0), np.ones(times.sum()))
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-13)
    np.testing.assert_allclose(a.scale, b.scale, rtol=1e-13)


@pytest.mark.parametrize("unit", [1e-12, 1e12, 1e-150, 1e150])
def test_units_vanish(unit):
    X, w = _unscaled()
    plain, other = fit_scaler(X, w).transform(X), fit_scaler(unit * X, w).transform(unit * X)
    np.testing.assert_allclose(other, plain, atol=2e-11)
    # Values that are a power of two apart are the same to the bit.
    two = 2.0**40
    np.testing.assert_array_equal(fit_scaler(two * X, w).transform(two * X), plain)


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_scale_of_the_weights_does_not_matter(factor):
    X, w = _unscaled()
    np.testing.assert_allclose(
        fit_scaler(X, factor * w).transform(X), fit_scaler(X, w).transform(X), atol=2e-11
    )


def test_constant_columns_are_dropped_and_come_back_as_their_mean():
    X, w = _unscaled()
    X[:, 1] = 7.5
    scaler = fit_scaler(X, w)
    np.testing.assert_array_equal(scaler.kept, [True, False, True])
    Z = scaler.transform(X)
    assert Z.shape == (40, 2)
    np.testing.assert_allclose(scaler.inverse_transform(Z), X, atol=1e-9)


@pytest.mark.parametrize("level", [1e12, 1e-12, 0.1])
def test_rounding_noise_is_no_variation(level):
    X = np.full((30, 2), level)
    X[:, 0] *= np.where(np.arange(30) % 2, 1.0, 1.0 + 2e-16)
    X[:, 1] = np.arange(30)
    np.testing.assert_array_equal(fit_scaler(X, np.ones(30)).kept, [False, True])


def test_small_variation_around_a_large_level_is_kept():
    X = 1e6 + np.linspace(0.0, 1e-3, 20)[:, None]
    Z = fit_scaler(X, np.ones(20)).transform(X)
    np.testing.assert_allclose(Z.std(), 1.0, atol=1e-5)


def test_rows_of_no_weight_do_not_move_the_scale():
    X, w = _unscaled()
    far = np.vstack([X, [[1e9, -1e9, 1e9]]])
    scaler = fit_scaler(far, np.append(w, 0.0))
    np.testing.assert_allclose(scaler.scale, fit_scaler(X, w).scale, rtol=1e-5)


def test_all_columns_can_be_kept_for_rows_to_come():
    X, w = _unscaled()
    X[:, 1] = 7.5
    scaler = fit_scaler(X, w).with_all_columns()
    assert scaler.transform(X).shape == (40, 3)


def test_if_no_column_varies_all_are_kept_and_are_zero():
    X = np.full((5, 2), 3.0)
    scaler = fit_scaler(X, np.ones(5))
    np.testing.assert_array_equal(scaler.transform(X), np.zeros((5, 2)))


def test_absurdly_far_values_stay_finite_and_squareable():
    X, w = _unscaled()
    Z = fit_scaler(X, w).transform(np.full((1, 3), 1e308))
    assert np.isfinite(Z**2).all()
