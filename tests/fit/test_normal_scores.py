"""Columns halfway to their normal scores (eq. 1.7)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, rankdata

from bayesvm import BayesianSVC
from bayesvm._fit.rows import CanonicalRows, Extent, Moments, Scaler

N = 400


def columns(seed=0):
    """Skewed, with outliers, of two values, of few values, and constant."""
    rng = np.random.default_rng(seed)
    heavy = rng.normal(size=N)
    heavy[:3] *= 1e6
    two, few = rng.integers(0, 2, N), rng.integers(0, 5, N) ** 2
    return np.stack([np.exp(2 * rng.normal(size=N)), heavy, two, few, np.full(N, 7.0)], 1)


def scaler_of(X, weight=None):
    weight = np.ones(len(X)) if weight is None else weight
    y, key = np.zeros(len(X), dtype=np.int64), np.arange(len(X))
    rows = CanonicalRows.of(X, y, weight, np.ones_like(y), key)
    extent = Extent.of(X)
    plain = Moments.of(extent.position(X), weight).scaler(extent)
    return plain, plain.towards_normal_scores(rows)


def test_columns_are_averaged_with_their_normal_scores():
    """Exactly where a column has few values, and on the straight lines between knots where it has many."""
    X = columns()[:60]
    plain, halfway = scaler_of(X)
    Z = plain.transform(X)
    scores = np.stack([norm.ppf((rankdata(z) - 0.5) / len(z)) for z in Z.T], 1)
    expected = Z + scores
    expected = (expected - expected.mean(0)) / expected.std(0)
    assert_allclose(halfway.transform(X), expected, atol=1e-6)
    many = columns()
    plain, halfway = scaler_of(many)
    Z = plain.transform(many)
    scores = np.stack([norm.ppf((rankdata(z) - 0.5) / len(z)) for z in Z.T], 1)
    expected = Z + scores
    expected = (expected - expected.mean(0)) / expected.std(0)
    assert np.abs(halfway.transform(many) - expected)[:, [0, 2, 3]].max() < 0.05


def test_two_values_stay_what_they_are_when_standardised():
    plain, halfway = scaler_of(columns())
    assert_allclose(halfway.transform(columns())[:, 2], plain.transform(columns())[:, 2], atol=1e-8)


def test_curves_increase_and_lose_nothing():
    X = columns()
    _, halfway = scaler_of(X)
    far = np.linspace(-1e3, 1e9, 4000)
    new = np.stack([far] * X.shape[1], 1)
    assert (np.diff(halfway.transform(new), axis=0) >= 0).all()
    varying = halfway.kept
    back = halfway.inverse_transform(halfway.transform(X))
    assert_allclose(back[:, varying], X[:, varying], rtol=1e-6, atol=1e-6)
    assert_allclose(back[:, ~varying], 7.0)


def test_a_row_of_weight_two_is_the_row_given_twice():
    X = columns()
    weight = np.random.default_rng(1).integers(1, 4, N).astype(float)
    _, weighted = scaler_of(X, weight)
    _, repeated = scaler_of(np.repeat(X, weight.astype(int), 0))
    assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-7)


def test_neither_units_nor_order_matter():
    X = columns()
    _, first = scaler_of(X)
    order = np.random.default_rng(2).permutation(N)
    units = np.array([3.7, 1e-5, 12.0, 1e4, 1.0])
    _, second = scaler_of((X * units)[order])
    assert_allclose(second.transform(X * units), first.transform(X), atol=1e-8)


def test_constant_columns_that_vary_later_are_standardised():
    _, halfway = scaler_of(columns())
    every = halfway.with_all_columns()
    new = columns()[:2].copy()
    new[1, 4] = 9.0
    assert_allclose(np.diff(every.transform(new)[:, 4]), 2.0)
    assert isinstance(every, Scaler)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_column_of_a_heavy_tail_is_learned(n_classes):
    """A threshold among the many small values, which standardising alone crowds together."""
    rng = np.random.default_rng(3)
    X = np.exp(4 * rng.normal(size=(600, 2)))
    y = np.digitize(X[:, 0], np.quantile(X[:, 0], np.arange(1, 7) / 7)) % n_classes
    train, test = slice(0, 300), slice(300, 600)
    score = {
        flag: BayesianSVC(kernel="rbf", local=False, normal_scores=flag, random_state=0)
        .fit(X[train], y[train])
        .score(X[test], y[test])
        for flag in (True, False)
    }
    assert score[True] > 0.9
    assert score[True] > score[False] + 0.03


def test_the_paper_and_the_option_leave_columns_standardised():
    X, y = columns()[:, :4], np.random.default_rng(4).integers(0, 3, N)
    model = BayesianSVC(normal_scores=False, random_state=0).fit(X, y)
    assert model.model_.scaler.curves is None
    assert BayesianSVC.paper().normal_scores is False


@pytest.mark.parametrize("light", [1e-20, 1e-300, 1e20, 1e300])
def test_weights_of_any_size_leave_curves_finite(light):
    X = np.array([[-1.0], [0.0], [1.0], [1.5]])
    _, halfway = scaler_of(X, np.array([1.0, 1.0, 1.0, light]))
    assert np.isfinite(halfway.curves.x).all()
    assert np.isfinite(halfway.curves.y).all()
    assert (np.diff(halfway.transform(np.linspace(-3, 3, 50)[:, None])[:, 0]) >= 0).all()


def test_a_mirrored_column_has_mirrored_scores():
    X = columns()[:60]
    weight = np.random.default_rng(5).random(60)
    _, one = scaler_of(X, weight)
    _, other = scaler_of(-X, weight)
    assert_allclose(other.transform(-X), -one.transform(X), atol=1e-7)


def test_rows_alone_and_together_are_the_same():
    X = columns()
    _, halfway = scaler_of(X)
    together = halfway.transform(X)
    assert_allclose(np.concatenate([halfway.transform(x[None]) for x in X]), together, atol=1e-10)


def test_later_calls_of_partial_fit_keep_the_curves():
    X, y = columns()[:, :3], np.random.default_rng(6).integers(0, 2, N)
    model = BayesianSVC(hyperparameters="fixed", random_state=0).partial_fit(X[:300], y[:300], classes=[0, 1])
    before = model.model_.scaler.curves
    model.partial_fit(X[300:320], y[300:320])
    assert model.model_.scaler.curves is before


@pytest.mark.parametrize("outlier", [1e3, 1e6, 1e9, 1e12])
def test_compiled_rows_meet_the_same_curves(outlier):
    """A curve is as steep as an outlier makes the others crowd together."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    X[5, 0] = outlier
    model = BayesianSVC(hyperparameters="fixed", local=False, random_state=0).fit(X, y)
    exact = model.compile_predictor("float64")
    assert_allclose(exact.predict_proba(X), model.predict_proba(X), atol=1e-7)
    assert_allclose(exact.predict_proba_one(X[7]), model.predict_proba(X[7:8])[0], atol=1e-7)
