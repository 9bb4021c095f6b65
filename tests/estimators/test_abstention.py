"""Handing doubtful rows to a person keeps the promised error among the rest."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import make_classification

from bayesvm import BayesianSVC
from bayesvm._base import confidence_threshold

from .data import FAST, three_blobs


def noisy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        n, 6, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.0, class_sep=0.9, random_state=seed
    )


def test_accepted_rows_keep_the_error():
    """Statistical smoke test: pooled over four training sets."""
    X, y = noisy(4000, 0)
    wrong = accepted = 0
    for start in range(0, 1200, 300):
        model = BayesianSVC(**FAST).fit(X[start : start + 300], y[start : start + 300])
        keep = ~model.abstain(X[1200:], max_error=0.1)
        wrong += (model.predict(X[1200:])[keep] != y[1200:][keep]).sum()
        accepted += keep.sum()
    assert wrong / accepted < 0.11
    assert accepted > 0.2 * 4 * 2800
    assert model.score(X[1200:], y[1200:]) < 0.87  # without abstaining the promise would be broken


def test_thresholds_fall_with_the_allowed_error():
    X, y = noisy(300, 0)
    model = BayesianSVC(**FAST).fit(X, y)
    thresholds = [model.abstention_threshold(e) for e in (1e-6, 0.01, 0.05, 0.1, 0.2, 0.5, 0.9)]
    assert all(a >= b for a, b in itertools.pairwise(thresholds))
    assert thresholds[0] == np.inf
    assert model.abstain(X, 1e-6).all()
    assert not model.abstain(X, 0.9).any()
    kept = [(~model.abstain(X, e)).sum() for e in (0.01, 0.05, 0.2)]
    assert kept == sorted(kept)


@pytest.mark.parametrize("max_error", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_error_rate_is_checked(max_error):
    X, y = three_blobs(30)
    model = BayesianSVC(**FAST).fit(X, y)
    with pytest.raises(ValueError, match=r"max_error=.*between 0 and 1"):
        model.abstain(X, max_error)


def test_threshold_by_hand():
    confidence = np.array([0.99, 0.95, 0.95, 0.9, 0.6])
    correct = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    weight = np.ones(5)
    # One error more than seen: (0 + 1) / (4 + 1) = 0.2 down to 0.9, (1 + 1) / 6 = 1/3 for all.
    assert confidence_threshold(confidence, correct, weight, 0.34) == 0.6
    assert confidence_threshold(confidence, correct, weight, 0.2) == 0.9
    # 0.95 is shared by two rows, so it stands or falls with both: 1 / 4.
    assert confidence_threshold(confidence, correct, weight, 0.26) == 0.9
    assert confidence_threshold(confidence[:3], correct[:3], weight[:3], 0.26) == 0.95
    assert confidence_threshold(confidence, correct, weight, 0.1) == np.inf
