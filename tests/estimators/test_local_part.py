"""Rows close by: when they help, leave-one-out finds out, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris

import bayesvm
from bayesvm import BayesianSVC

FAST = {"n_inducing": 24, "random_state": 0}


def cells(n_places, rng):
    """Different places in columns of few values, which repeat by nature."""
    place = rng.permutation(512)[:n_places]
    return np.stack([place % 8, place // 8 % 8, place // 64], 1) / 2.3


def repeating(n_places=200, n_classes=3, seed=0):
    """Labels without any pattern but that every place comes back with the same one."""
    rng = np.random.default_rng(seed)
    places, labels = cells(n_places, rng), rng.integers(n_classes, size=n_places)
    again = rng.integers(n_places, size=3 * n_places)
    return places[again], labels[again], places, labels


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    X, y, places, labels = repeating(n_classes=request.param)
    return BayesianSVC(**FAST).fit(X, y), X, y, places, labels


def test_repeated_rows_are_remembered(fitted):
    model, X, y, _, _ = fitted
    assert model.local_part_ is not None
    assert model.score(X, y) > 0.95
    plain = BayesianSVC(local=False, **FAST).fit(X, y)
    assert plain.local_part_ is None
    assert plain.score(X, y) < 0.8
    assert model.loo_log_loss_ < plain.loo_log_loss_ - 0.2


def test_leave_one_out_estimates_what_it_is_worth(fitted):
    model, X, _, places, labels = fitted
    times = np.array([(place == X).all(1).sum() for place in places])
    seen = times > 0
    # A new row is a place drawn at random: seen before or not.
    truth = seen.mean() * model.score(places[seen], labels[seen]) + (1 - seen.mean()) * model.score(
        places[~seen], labels[~seen]
    )
    assert abs(model.loo_score_ - truth) < 0.08


def test_weights_repeat_nothing(fitted):
    _, X, _, places, labels = fitted
    times = np.array([(place == X).all(1).sum() for place in places]).astype(float)
    assert BayesianSVC(**FAST).fit(places, labels, sample_weight=times).local_part_ is None


def test_copies_repeat_nothing_unless_groups_say_that_they_do():
    _, _, places, labels = repeating()
    places = places + np.random.default_rng(1).normal(size=places.shape)
    again = np.random.default_rng(2).integers(200, size=600)
    X, y = places[again], labels[again]
    with pytest.warns(bayesvm.RepeatedRowsWarning):
        assert BayesianSVC(**FAST).fit(X, y).local_part_ is None
    assert BayesianSVC(**FAST).fit(X, y, groups=np.arange(600)).local_part_ is not None


def test_order_and_batches_do_not_matter(fitted):
    model, X, y, places, _ = fitted
    order = np.random.default_rng(1).permutation(len(y))
    again = BayesianSVC(**FAST).fit(X[order], y[order])
    assert_allclose(again.predict_proba(places), model.predict_proba(places), atol=1e-9)
    one_by_one = np.concatenate([model.predict_proba(row[None]) for row in places[:20]])
    assert_allclose(one_by_one, model.predict_proba(places)[:20], atol=1e-9)


def test_draws_agree_with_the_means(fitted):
    model, _, _, places, _ = fitted
    draws = model.sample_latent(places[:15], n_samples=4000, random_state=0)
    mean, std = model.predict_latent(places[:15])
    difference = draws[..., 1] - draws[..., 0]
    error = 5 * np.sqrt((std**2).sum(1) / 4000)
    assert np.all(np.abs(difference.mean(0) - (mean[:, 1] - mean[:, 0])) < error)


def test_files(fitted, tmp_path):
    model, _, _, places, _ = fitted
    bayesvm.save(model, tmp_path / "model.skops")
    loaded = bayesvm.load(tmp_path / "model.skops")
    assert_allclose(loaded.predict_proba(places), model.predict_proba(places))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_wrong_labels_among_repeats_cost_little(n_classes):
    """The pull of many copies must not grow beyond what the hinge asks for."""
    rng = np.random.default_rng(3)
    places, labels = cells(100, rng), rng.integers(n_classes, size=100)

    def drawn(n):
        place = rng.integers(100, size=n)
        wrong = rng.random(n) < 0.02
        return places[place], np.where(wrong, rng.integers(n_classes, size=n), labels[place])

    X, y = drawn(800)
    model = BayesianSVC(**FAST).fit(X, y)
    assert model.local_part_ is not None
    X_new, y_new = drawn(2000)
    own = model.predict_proba(X_new)[np.arange(2000), y_new]
    assert own.min() > np.exp(-15)
    assert -np.log(own).mean() < 2 * model.loo_log_loss_


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_outliers_do_not_choose_neighbours(dtype):
    X, y, _, _ = repeating()
    X, y = np.vstack([X, np.full((1, 3), 1e6)]), np.append(y, 0)
    model = BayesianSVC(dtype=dtype, **FAST).fit(X, y)
    assert model.local_part_ is not None
    one_by_one = np.concatenate([model.predict_proba(row[None]) for row in X[:20]])
    assert_allclose(one_by_one, model.predict_proba(X)[:20], atol=1e-3)
    assert model.score(X, y) > 0.95


def test_heavy_rows_with_several_labels_in_single_precision():
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 6)).reshape(6, -1).T
    label = np.random.default_rng(0).integers(3, size=64)
    X, y = np.repeat(corners, 3, 0), np.tile([0, 1, 2], 64)
    weight = np.where(y == np.repeat(label, 3), 0.8, 0.1) * 3e4
    model = BayesianSVC(n_inducing=8, random_state=0, dtype="float32").fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict_proba(corners)).all()


def test_smooth_data_stay_as_they_are():
    X, y = load_iris(return_X_y=True)
    model = BayesianSVC(random_state=0).fit(X, y)
    assert model.local_part_ is None
    plain = clone(model).set_params(local=False).fit(X, y)
    assert_allclose(plain.predict_proba(X), model.predict_proba(X))


def test_local_must_be_a_switch():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="local='yes' is not valid"):
        BayesianSVC(local="yes").fit(X, y)
