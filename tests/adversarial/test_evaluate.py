"""Measures of detection against brute force."""

import itertools

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from bayesvm.adversarial import random_signs, roc_auc, tpr_at_fpr
from bayesvm.adversarial._evaluate import conformal_threshold


def scores(ties, seed=0):
    rng = np.random.default_rng(seed)
    low, high = rng.normal(0.0, 1.0, 83), rng.normal(0.7, 1.2, 47)
    return (low.round(ties), high.round(ties)) if ties is not None else (low, high)


@pytest.mark.parametrize("ties", [None, 1, 0])
def test_area_counts_ties_half(ties):
    low, high = scores(ties)
    pairs = [(p > n) + 0.5 * (p == n) for n, p in itertools.product(low, high)]
    assert np.isclose(roc_auc(low, high), np.mean(pairs), rtol=1e-12)
    labels = np.repeat([0, 1], [len(low), len(high)])
    assert np.isclose(roc_auc(low, high), roc_auc_score(labels, np.concatenate([low, high])), rtol=1e-12)


def test_area_of_scores_that_say_nothing():
    assert roc_auc(np.zeros(7), np.zeros(3)) == 0.5


@pytest.mark.parametrize("ties", [None, 0])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.3])
def test_rate_is_the_best_that_a_threshold_can_have(ties, rate):
    low, high = scores(ties)
    thresholds = np.concatenate([[-np.inf], low, high])
    allowed = [t for t in thresholds if (low > t).mean() <= rate]
    assert tpr_at_fpr(low, high, rate) == max((high > t).mean() for t in allowed)


@pytest.mark.parametrize("n", [19, 20, 39, 57, 100])
def test_threshold_keeps_its_promise(n):
    """Of n + 1 rows in any order each is equally likely the new one: count those that exceed."""
    values = np.random.default_rng(n).normal(size=n + 1)
    exceeds = [
        values[i] > conformal_threshold(np.delete(values, i), false_positive_rate=0.05) for i in range(n + 1)
    ]
    assert np.mean(exceeds) <= 0.05
    assert np.sum(exceeds) == int(0.05 * (n + 1) + 1e-9)  # and no more careful than needed


def test_too_few_rows_promise_nothing():
    with pytest.raises(ValueError, match="at least 19"):
        conformal_threshold(np.arange(18.0), 0.05)


@pytest.mark.parametrize("bad", [[], [[0.0]], [np.nan]])
def test_what_are_no_scores_is_refused(bad):
    with pytest.raises(ValueError, match="negative"):
        roc_auc(bad, [1.0])


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1])
def test_rates_are_checked(rate):
    with pytest.raises(ValueError, match="rate"):
        tpr_at_fpr([0.0], [1.0], rate)


def test_random_signs_have_the_norm_of_an_attack():
    images = torch.full((3, 1, 5, 5), 0.5)
    noisy = random_signs(images, 0.2, seed=3)
    assert torch.allclose((noisy - images).abs(), torch.full_like(images, 0.2))
    assert 20 < int((noisy > images).sum()) < 55
    assert torch.equal(noisy, random_signs(images, 0.2, seed=3))
    assert not torch.equal(noisy, random_signs(images, 0.2, seed=4))
    clipped = random_signs(torch.zeros(2, 1, 5, 5), 0.3)
    assert float(clipped.min()) == 0.0
    assert float(clipped.max()) == pytest.approx(0.3)
