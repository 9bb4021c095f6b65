"""Whether a model knows more than the class frequencies, by hand and on data that say nothing or a lot."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from bayesvm import BayesianSVC, NothingLearnedWarning
from bayesvm._judgement import Gain, gain_over_frequencies


def test_gain_by_hand():
    own = np.array([0.9, 0.6, 0.2, 0.7])
    label, mass = np.array([0, 0, 1, 1]), np.array([6.0, 2.0])
    base = np.array([0.7, 0.7, 0.3, 0.3])
    difference = np.log(own / base)
    gain = gain_over_frequencies(own, label, mass)
    assert gain.value == pytest.approx(difference.mean())
    assert gain.error == pytest.approx(difference.std(ddof=1) / 2)
    left_out = gain_over_frequencies(own, label, mass, left_out=True)
    assert left_out.value == pytest.approx(difference.mean() - 2 / 4)


def test_copies_are_rows_and_other_weights_have_no_scale():
    own, label, mass = np.array([0.9, 0.6, 0.2]), np.array([0, 0, 1]), np.array([6.0, 2.0])
    copies, one = np.array([3.0, 1.0, 2.0]), np.ones(3)
    repeated = gain_over_frequencies(
        np.repeat(own, [3, 1, 2]), np.repeat(label, [3, 1, 2]), mass, left_out=True
    )
    assert gain_over_frequencies(own, label, mass, copies, one, True) == pytest.approx(repeated)
    some = np.array([0.5, 0.25, 0.3])
    scaled = gain_over_frequencies(own, label, mass, 0.1 * some, 0.1 * some, True)
    assert gain_over_frequencies(own, label, mass, some, some, True) == pytest.approx(scaled)


def test_a_single_row_is_never_certain_and_nothing_known_neither():
    assert not gain_over_frequencies(np.array([0.99]), np.array([0]), np.array([5.0, 5.0])).is_certain
    assert not Gain(np.nan, np.nan, np.nan).is_certain
    assert not Gain(0.5, 0.5, 0.0).is_certain


@pytest.mark.parametrize("seed", [1000, 1001, 1002])
def test_noise_is_said_to_be_noise(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(200, 50)), rng.integers(0, 2, 200)
    with pytest.warns(NothingLearnedWarning, match="no better than the class frequencies"):
        BayesianSVC(random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=NothingLearnedWarning)
        BayesianSVC(random_state=0).fit(X, y)


@pytest.mark.parametrize("weight", [None, "copies", "shares"])
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_what_is_learned_is_not_doubted(load, weight):
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(1000)
    weight = {None: None, "copies": rng.integers(1, 4, len(y)), "shares": rng.random(len(y))}[weight]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NothingLearnedWarning)
        model = BayesianSVC(random_state=0).fit(X, y, sample_weight=weight)
    assert Gain(*model.loo_gain_).is_certain
    assert model.loo_gain_[0] == model.loo_log_loss_
