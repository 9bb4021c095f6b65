"""Standardisation with weights, in any units."""

import numpy as np
import pytest

from bayesvm._fit.rows import fit_scaler


def _data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, -1.0], rng.uniform(0.2, 3.0, 40)


def test_weighted_mean_is_zero_and_weighted_variance_one():
    X, w = _data()
    Z = fit_scaler(X, w).transform(X)
    np.testing.assert_allclose(w @ Z, 0.0, atol=1e-9)
    np.testing.assert_allclose(w @ Z**2 / w.sum(), 1.0, atol=1e-9)


def test_whole_weights_are_repetitions():
    X, _ = _data()
    times = 1 + np.arange(40) % 3
    a = fit_scaler(X, times.astype(float))
    b = fit_scaler(np.repeat(X, times, 0), np.ones(times.sum()))
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-13)
    np.testing.assert_allclose(a.scale, b.scale, rtol=1e-13)


@pytest.mark.parametrize("unit", [1e-12, 1e12, 1e-150, 1e150])
def test_units_vanish(unit):
    X, w = _data()
    plain, other = fit_scaler(X, w).transform(X), fit_scaler(unit * X, w).transform(unit * X)
    np.testing.assert_allclose(other, plain, atol=2e-11)
    # Values that are a power of two apart are the same to the bit.
    two = 2.0**40
    np.testing.assert_array_equal(fit_scaler(two * X, w).transform(two * X), plain)


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_scale_of_the_weights_does_not_matter(factor):
    X, w = _data()
    np.testing.assert_allclose(
        fit_scaler(X, factor * w).transform(X), fit_scaler(X, w).transform(X), atol=2e-11
    )


def test_constant_columns_are_dropped_and_come_back_as_their_mean():
    X, w = _data()
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
    X, w = _data()
    far = np.vstack([X, [[1e9, -1e9, 1e9]]])
    scaler = fit_scaler(far, np.append(w, 0.0))
    np.testing.assert_allclose(scaler.scale, fit_scaler(X, w).scale, rtol=1e-5)


def test_all_columns_can_be_kept_for_rows_to_come():
    X, w = _data()
    X[:, 1] = 7.5
    scaler = fit_scaler(X, w).with_all_columns()
    assert scaler.transform(X).shape == (40, 3)


def test_if_no_column_varies_all_are_kept_and_are_zero():
    X = np.full((5, 2), 3.0)
    scaler = fit_scaler(X, np.ones(5))
    np.testing.assert_array_equal(scaler.transform(X), np.zeros((5, 2)))


def test_absurdly_far_values_stay_finite_and_squareable():
    X, w = _data()
    Z = fit_scaler(X, w).transform(np.full((1, 3), 1e308))
    assert np.isfinite(Z**2).all()
