"""Folds predict a row by a model that has learned everything without it."""

import pickle

import numpy as np
import pytest

import bayesvm
from bayesvm import (
    BayesianSVC,
    BinaryBayesianSVC,
    LinearBayesianSVC,
    NothingLearnedWarning,
    SVGPClassifier,
    TooFewRowsWarning,
)
from bayesvm._fit.folds import FOLDS, Folds, deal
from bayesvm._fit.partial_fit import Memory

from ..estimators.data import FAST, three_blobs


def memory(y, count=None, copied=False, group=None):
    n = len(y)
    count = np.ones(n, dtype=int) if count is None else np.array(count)
    return Memory(np.zeros((n, 1)), np.array(y), count.astype(float), count, None, None, n, copied, group)


# Dealing ---------------------------------------------------------------------------------------


def test_every_fold_has_as_much_of_every_class():
    rng = np.random.default_rng(0)
    y, count = rng.integers(3, size=80), rng.integers(1, 40, 80)
    dealt = deal(memory(y, count))
    np.testing.assert_array_equal(dealt.sum(1), count)
    assert dealt.shape == (80, FOLDS)
    assert np.ptp(dealt.sum(0)) <= 1
    for c in range(3):
        assert np.ptp(dealt[y == c].sum(0)) <= 1
    assert dealt.min() >= 0
    assert (np.ptp(dealt, 1) <= 1).all()  # equal rows go to different folds


@pytest.mark.parametrize("count", [[1, 1], [1, 1, 1], [5, 1]])
def test_few_rows_make_few_folds(count):
    dealt = deal(memory(np.arange(len(count)) % 2, count))
    assert dealt.shape[1] == sum(count)
    assert (dealt.sum(0) == 1).all()


def test_copies_and_groups_stay_together():
    y, count = np.arange(30) % 2, np.full(30, 4)
    copies = deal(memory(y, count, copied=True))
    assert ((copies > 0).sum(1) == 1).all()
    assert np.ptp(copies.sum(0)) == 0
    assert all(np.ptp(copies[y == c].sum(0)) <= 4 for c in (0, 1))
    group = np.arange(30) // 10
    groups = deal(memory(y, count, group=group))
    assert groups.shape[1] == 3
    assert all(len(np.unique(groups[group == g].argmax(1))) == 1 for g in range(3))


# Fits ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide():
    """Few rows beside the parameters of the kernel, and a model of them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 12))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, "yes", "no")
    return X, y, BayesianSVC(random_state=0).fit(X, y)


def test_rows_are_predicted_by_fits_without_them(wide):
    _, _, model = wide
    folds = Folds.of(model)
    rows = model.memory_
    assert len(folds.models) == FOLDS
    for k in (0, 7):
        inside = folds.fold == k
        again = BayesianSVC(random_state=0).fit(rows.X[~inside], rows.y[~inside])
        p = again.predict_proba(rows.X[inside])
        assert folds.rows.confidence[inside] == pytest.approx(p.max(1), abs=1e-9)
        own = p[np.arange(len(p)), rows.y[inside]]
        assert folds.rows.label_proba[inside] == pytest.approx(own, abs=1e-9)


def test_folds_are_of_the_parameters_of_the_fit(wide, tmp_path):
    X, y, model = wide
    other = BayesianSVC(random_state=0).fit(X, y)
    path = bayesvm.save(
        other.set_params(kernel="constant", random_state=1, hyperparameters="fixed"), tmp_path / "m"
    )
    for changed in (other, bayesvm.load(path)):
        assert changed.left_out().log_loss == pytest.approx(model.left_out().log_loss)


def test_promises_of_small_wide_data_rest_on_folds(wide):
    X, _, model = wide
    left = model.left_out()
    assert left is model.left_out("folds")
    assert left.log_loss != pytest.approx(model.loo_log_loss_, abs=1e-3)
    assert model.left_out("leave-one-out").log_loss == pytest.approx(model.loo_log_loss_)
    assert model.abstention_threshold(0.3) == model.abstention_threshold(0.3, calibration="folds")
    new = np.random.default_rng(2).normal(size=(40, 12))
    sets = model.predict_set(new, 0.8)
    np.testing.assert_array_equal(sets, model.predict_set(new, 0.8, "folds"))
    assert (sets != model.predict_set(new, 0.8, "leave-one-out")).any()
    with pytest.raises(ValueError, match="'fold' is not valid; choose"):
        model.predict_set(X, 0.8, "fold")


def test_promises_of_more_rows_rest_on_leave_one_out():
    X, y = three_blobs(120)
    model = BayesianSVC(random_state=0).fit(X, y)
    assert model.left_out().log_loss == pytest.approx(model.loo_log_loss_)
    assert model._folds is None
    forced = model.left_out("folds")
    assert forced.weight.sum() == 120
    assert forced.accuracy == pytest.approx(model.loo_score_, abs=0.05)
    model.fit(X[:60], y[:60])
    assert model._folds is None


def test_fold_models_are_not_saved(wide, tmp_path):
    _, _, model = wide
    left = model.left_out("folds")
    plain = len(pickle.dumps(model))
    again = bayesvm.load(bayesvm.save(model, tmp_path / "model.skops"))
    for copy in (again, pickle.loads(pickle.dumps(model))):
        assert copy._folds is None
        assert copy.left_out().log_loss == pytest.approx(left.log_loss)
        assert len(pickle.dumps(copy)) == pytest.approx(plain, rel=0.01)


def test_copies_are_left_out_together():
    """Of rows drawn with replacement none vouches for its copies."""
    X, y = three_blobs(60)
    drawn = np.random.default_rng(0).integers(60, size=120)
    with pytest.warns(bayesvm.RepeatedRowsWarning):
        model = BayesianSVC(**FAST).fit(X[drawn], y[drawn])
    left = model.left_out("folds")
    assert len(left.weight) == len(np.unique(drawn))
    assert left.n_rows < 60
    np.testing.assert_array_equal(left.weight, left.unit)


def test_groups_are_left_out_together():
    X, y = three_blobs(60)
    group = np.arange(60) // 6
    model = BayesianSVC(**FAST).fit(X, y, groups=group)
    fold = Folds.of(model).fold
    position = {row.tobytes(): i for i, row in enumerate(X)}
    of = np.array([group[position[row.tobytes()]] for row in model.memory_.X])
    assert all(len(np.unique(fold[of == g])) == 1 for g in range(10))


def test_a_class_of_one_row_is_predicted_by_models_without_it():
    X, y = three_blobs(40)
    y = np.where(np.arange(40) == 3, 9, y % 2)
    model = BayesianSVC(**FAST).fit(X, y)
    left = model.left_out("folds")
    assert (left.label_proba == np.finfo(float).tiny).sum() == 1
    with pytest.warns(NothingLearnedWarning):
        two = BayesianSVC(**FAST).fit(X[:12], np.arange(12) == 3)
    left = two.left_out("folds")  # without that row there is one class
    assert left.confidence.max() == 1.0
    assert (left.label_proba == np.finfo(float).tiny).sum() == 1
    with pytest.warns(TooFewRowsWarning):
        assert two.abstain(X).all()


@pytest.mark.parametrize("estimator", [BinaryBayesianSVC, LinearBayesianSVC, SVGPClassifier])
def test_the_family_has_folds(estimator):
    X, y = three_blobs(60)
    model = estimator(random_state=0).fit(X, y > 0)
    assert model.left_out("folds").accuracy > 0.7
    assert model.predict_set(X, 0.9, "folds").shape == (60, 2)


@pytest.mark.filterwarnings("ignore::bayesvm.NothingLearnedWarning")
def test_weights_and_class_weights_are_those_of_the_fit():
    X, y = three_blobs(60)
    weight = np.random.default_rng(0).exponential(size=60)
    plain = BayesianSVC(**FAST).fit(X, y, sample_weight=weight * np.where(y == 0, 3.0, 1.0))
    other = BayesianSVC(**FAST, class_weight={0: 3.0, 1: 1.0, 2: 1.0}).fit(X, y, sample_weight=weight)
    assert plain.left_out("folds").log_loss == pytest.approx(other.left_out("folds").log_loss)


def test_folds_are_refused_where_rows_are_gone_or_draws_would_be_drawn_anew():
    X, y = three_blobs(2100)
    model = BayesianSVC(**FAST, n_inducing=10).fit(X, y)
    with pytest.raises(ValueError, match=r"does not remember them all \(at most 2000\)"):
        model.left_out("folds")
    chains = BayesianSVC(inference="slice", n_chains=2, n_draws=20, hyperparameters="fixed", random_state=0)
    with pytest.warns(UserWarning, match="draws|chains"):
        chains.fit(X[:30], y[:30])
    with pytest.raises(ValueError, match="ten times"):
        chains.left_out("folds")
