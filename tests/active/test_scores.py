"""Scores against draws, closed forms and hand-computed cases."""

import numpy as np
import pytest
from scipy.stats import norm

from bayesvm.active._scores import (
    entropy_scores,
    margin_scores,
    mutual_information_scores,
    softmax_entropy_scores,
    variation_ratio_scores,
    vote_scores,
)
from tests.active.problems import random_moments


def test_variation_ratio_of_two_classes_is_a_normal_probability():
    mean, variance = random_moments(500, 2, 4.0)
    z = np.abs(mean[:, 0] - mean[:, 1]) / np.sqrt(variance.sum(1))
    np.testing.assert_allclose(variation_ratio_scores(mean, variance), norm.cdf(-z), atol=1e-7)


def test_variation_ratio_is_the_share_of_draws_that_disagree():
    mean, variance = random_moments(20, 5, 2.0)
    rng = np.random.default_rng(1)
    n_draws = 40_000
    winners = (mean + np.sqrt(variance) * rng.standard_normal((n_draws, 20, 5))).argmax(2)
    share = np.stack([(winners == c).mean(0) for c in range(5)], 1).max(1)
    # five standard errors of a share
    np.testing.assert_allclose(variation_ratio_scores(mean, variance), 1 - share, atol=5 * 0.5 / n_draws**0.5)


def test_variation_ratio_does_not_depend_on_blocks():
    mean, variance = random_moments(9000, 10, 1.5)
    whole = variation_ratio_scores(mean, variance)
    assert len(whole) > 2 * (2_000_000 // 640)
    np.testing.assert_array_equal(
        whole[5000:5003], variation_ratio_scores(mean[5000:5003], variance[5000:5003])
    )


def test_all_alike_is_the_most_doubtful():
    ratio = variation_ratio_scores(np.zeros((1, 7)), np.ones((1, 7)))
    np.testing.assert_allclose(ratio, 1 - 1 / 7, atol=1e-9)


def test_softmax_entropy_by_hand():
    p = np.exp([0.0, 1.0, 2.0]) / np.exp([0.0, 1.0, 2.0]).sum()
    scores = softmax_entropy_scores([[0.0, 1.0, 2.0], [1000.0, -1000.0, 0.0], [3.0, 3.0, 3.0]])
    np.testing.assert_allclose(scores, [-(p * np.log(p)).sum(), 0.0, np.log(3)], atol=1e-12)


def test_margin_and_entropy_by_hand():
    p = [[0.6, 0.3, 0.1], [0.4, 0.2, 0.4], [1.0, 0.0, 0.0]]
    np.testing.assert_allclose(margin_scores(p), [0.7, 1.0, 0.0])
    by_hand = [-(0.6 * np.log(0.6) + 0.3 * np.log(0.3) + 0.1 * np.log(0.1)), None, 0.0]
    entropy = entropy_scores(p)
    np.testing.assert_allclose(entropy[[0, 2]], [by_hand[0], by_hand[2]], atol=1e-15)
    np.testing.assert_allclose(margin_scores([[1.0], [1.0]]), [0.0, 0.0])


def test_mutual_information_is_the_mean_divergence_from_the_mean():
    p = np.random.default_rng(0).dirichlet(np.ones(4), (30, 6))
    mean = p.mean(0)
    expected = (p * np.log(p / mean)).sum(2).mean(0)
    np.testing.assert_allclose(mutual_information_scores(p), expected, atol=1e-12)
    np.testing.assert_allclose(mutual_information_scores(p[:1]), 0.0, atol=1e-15)


def test_votes_by_hand():
    one, two, three = [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]
    members = [[one, one], [one, two], [two, three], [one, one]]
    np.testing.assert_allclose(vote_scores(members), [0.25, 0.5])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: variation_ratio_scores(np.zeros(3), np.ones(3)), "one column per class"),
        (lambda: variation_ratio_scores(np.zeros((3, 2)), np.ones((3, 3))), "must be the same"),
        (lambda: variation_ratio_scores(np.zeros((1, 2)), [[1.0, 0.0]]), "square them"),
        (lambda: variation_ratio_scores([[np.nan, 0.0]], np.ones((1, 2))), "not finite"),
        (lambda: margin_scores([[0.7, 0.7]]), "sum to one"),
        (lambda: entropy_scores([[np.nan, 1.0]]), "sum to one"),
        (lambda: entropy_scores([0.5, 0.5]), "shape"),
        (lambda: mutual_information_scores(np.ones((0, 3, 1))), "n_draws"),
    ],
)
def test_nonsense_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_no_rows_give_no_scores():
    assert variation_ratio_scores(np.empty((0, 3)), np.empty((0, 3))).shape == (0,)
    assert margin_scores(np.empty((0, 3))).shape == (0,)
