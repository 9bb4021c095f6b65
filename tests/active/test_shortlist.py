"""The best rows by bounds are the best rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bayesvm import BayesianSVC
from bayesvm._core.variation_ratio import argmax_probability
from bayesvm.active._rules import RULES
from bayesvm.active._scores import entropy_scores, margin_scores, variation_ratio_scores
from bayesvm.active._shortlist import (
    ROUGHNESS,
    TOLERANCE,
    best_first,
    can_screen,
    independent_bound,
    integrated_bound,
    screened,
    top,
)
from tests.active.problems import blobs, moons, random_moments


@pytest.mark.parametrize("spread", [1.0, 2.0, 20.0])
@pytest.mark.parametrize("n_classes", [2, 3, 12])
@pytest.mark.parametrize("scale", [0.1, 1.0, 6.0])
def test_bounds_hold(spread, n_classes, scale):
    mean, variance = random_moments(400, n_classes, spread, scale=scale)
    lower, upper = (b.numpy() for b in independent_bound(torch.as_tensor(mean), torch.as_tensor(variance)))
    exact = 1 - argmax_probability(torch.as_tensor(mean), torch.as_tensor(variance), 1000).amax(1).numpy()
    # the reference ends at six standard deviations, which leaves 2e-9
    assert (lower <= exact + 2e-9).all()
    assert (exact <= upper + 2e-9).all()
    # the bounds of the brief: one pair, all pairs
    assert (upper <= n_classes * np.maximum(lower, 1e-300) + 1e-12).all()


def test_bounds_of_two_classes_are_exact():
    mean, variance = random_moments(300, 2, 3.0)
    lower, upper = (b.numpy() for b in independent_bound(torch.as_tensor(mean), torch.as_tensor(variance)))
    np.testing.assert_allclose(lower, upper, atol=1e-14)
    np.testing.assert_allclose(lower, variation_ratio_scores(mean, variance), atol=1e-7)


@pytest.mark.parametrize("n_classes", [3, 10, 40])
@pytest.mark.parametrize("scale", [0.1, 1.0, 6.0])
def test_one_integral_is_within_its_tolerance(n_classes, scale):
    mean, variance = random_moments(600, n_classes, 2.0, scale=scale)
    F, s2 = torch.as_tensor(mean), torch.as_tensor(variance)
    exact = 1 - argmax_probability(F, s2, 400).gather(1, F.argmax(1, keepdim=True))[:, 0]
    error = (integrated_bound(F.float(), s2.float()).double() - exact).abs()
    assert error.max() < TOLERANCE / 2
    error = (integrated_bound(F.float(), s2.float(), rough=True).double() - exact).abs()
    assert error.max() < ROUGHNESS


def test_where_deviations_differ_much_the_integral_gives_way_to_the_bound():
    mean, variance = random_moments(300, 6, 50.0)
    F, s2 = torch.as_tensor(mean), torch.as_tensor(variance)
    exact = 1 - argmax_probability(F, s2, 4000).amax(1)
    assert (integrated_bound(F, s2) + TOLERANCE >= exact).all()


def test_top_by_hand_and_by_lot():
    scores = np.array([0.1, np.nan, 0.9, 0.9, -np.inf, 0.5])
    np.testing.assert_array_equal(top(scores, 3), [2, 3, 5])
    np.testing.assert_array_equal(top(scores, 10), [2, 3, 5, 0])
    assert top(scores, 0).size == 0
    first = {int(top(scores, 1, np.random.default_rng(seed))[0]) for seed in range(30)}
    assert first == {2, 3}


def test_best_first_computes_few_scores():
    rng = np.random.default_rng(0)
    scores = rng.random(100_000)
    seen = []

    def score(rows):
        seen.extend(rows)
        return scores[rows]

    rows, found = best_first(np.arange(100_000), scores + 1e-4, score, 5)
    np.testing.assert_array_equal(rows, top(scores, 5))
    np.testing.assert_array_equal(found, scores[rows])
    assert len(seen) <= 256


def test_best_first_goes_on_while_bounds_leave_doubt():
    scores = np.concatenate([np.zeros(2000), [0.5], np.zeros(3000)])
    upper = np.concatenate([np.full(2000, 0.9), [0.51], np.full(3000, 0.4)])
    rows, _ = best_first(np.arange(5001), upper, lambda i: scores[i], 1)
    assert rows.tolist() == [2000]


@pytest.mark.parametrize("make", [moons, blobs])
@pytest.mark.parametrize("n_labelled", [8, 60])
@pytest.mark.parametrize("n_inducing", [4, 64])
def test_screening_a_pool_finds_what_looking_at_every_row_finds(make, n_labelled, n_inducing, monkeypatch):
    X, y = make()
    pool = np.random.default_rng(0).uniform(-3, 3, (3000, 2))
    model = BayesianSVC(n_inducing=n_inducing, local=False, committee=False, random_state=0).fit(
        X[:n_labelled], y[:n_labelled]
    )
    assert can_screen(model)
    # many blocks, so that later ones are pruned by what earlier ones found
    monkeypatch.setattr("bayesvm.active._shortlist._BLOCK_ROWS", 100)
    every = model.variation_ratio(pool)
    for k in (1, 20):
        rows, ratios = screened(model, pool, k)
        # sums over other blocks of rows round in another order
        np.testing.assert_allclose(ratios, np.sort(every)[::-1][:k], rtol=1e-12)
        np.testing.assert_allclose(ratios, every[rows], rtol=1e-12)
    eligible = np.random.default_rng(1).random(3000) < 0.3
    rows, ratios = screened(model, pool, 3, eligible)
    assert eligible[rows].all()
    np.testing.assert_allclose(ratios, np.sort(every[eligible])[::-1][:3], rtol=1e-12)


def test_screening_looks_closely_at_few_rows(monkeypatch):
    X, y = blobs()
    pool = np.random.default_rng(0).uniform(-3, 3, (20_000, 2))
    model = BayesianSVC(n_inducing=16, local=False, committee=False, random_state=0).fit(X, y)
    looked_at = []
    plain = BayesianSVC.variation_ratio

    def counted(self, X, *args):
        looked_at.append(len(X))
        return plain(self, X, *args)

    monkeypatch.setattr(BayesianSVC, "variation_ratio", counted)
    screened(model, pool, 1)
    assert sum(looked_at) < 1000


def test_screening_with_points_that_all_but_coincide():
    """Single precision would have no digits left there."""
    X, y = blobs()
    X = np.concatenate([X[:40], X[:40] + 1e-6])
    model = BayesianSVC(80, local=False, committee=False, hyperparameters="fixed", random_state=0)
    model.fit(X, np.concatenate([y[:40], y[:40]]))
    pool = np.random.default_rng(0).uniform(-3, 3, (2000, 2))
    _, ratios = screened(model, pool, 4)
    np.testing.assert_allclose(ratios, np.sort(model.variation_ratio(pool))[::-1][:4], rtol=1e-9)


def test_models_with_draws_or_a_local_part_are_not_screened():
    X, y = moons(20)
    fitted = BayesianSVC(local=False, committee=False, hyperparameters="fixed", random_state=0).fit(X, y)
    plain = fitted.model_
    assert can_screen(fitted)
    fitted.model_ = replace(plain, draws=np.zeros((3, *plain.m.shape)))
    assert not can_screen(fitted)
    fitted.model_ = replace(plain, local="a local part")
    assert not can_screen(fitted)
    assert not can_screen(object())


@pytest.mark.parametrize("policy", ["margin", "entropy", "bald", "batch", "variation_ratio"])
@pytest.mark.parametrize("make", [moons, blobs])
def test_a_large_pool_is_asked_what_a_look_at_every_row_would_ask(policy, make, monkeypatch):
    X, y = make()
    by_probability = {"margin": margin_scores, "entropy": entropy_scores}
    pool = np.random.default_rng(0).uniform(-3, 3, (8000, 2))
    eligible = np.random.default_rng(1).random(8000) < 0.9
    for n_labelled in (8, 40):
        model = BayesianSVC(n_inducing=16, local=False, committee=False, random_state=0).fit(
            X[:n_labelled], y[:n_labelled]
        )
        monkeypatch.setattr("bayesvm.active._rules.PROMISING", 10**6)
        slow = RULES[policy].choose(model, pool, 3, eligible, np.random.default_rng(0))
        monkeypatch.setattr("bayesvm.active._rules.PROMISING", 500)
        quick = RULES[policy].choose(model, pool, 3, eligible, np.random.default_rng(0))
        if policy in by_probability:  # shortlists are by rough probabilities, and many rows are equally close
            scores = by_probability[policy](model.predict_proba(pool))
            assert scores[quick].min() >= np.quantile(scores[eligible], 0.99)
            np.testing.assert_allclose(scores[quick], scores[slow], atol=5e-3)
        else:
            np.testing.assert_array_equal(quick, slow)
        assert eligible[quick].all()


def test_threads_change_nothing(monkeypatch):
    X, y = blobs()
    pool = np.random.default_rng(0).uniform(-3, 3, (5000, 2))
    model = BayesianSVC(n_inducing=16, local=False, committee=False, random_state=0).fit(X, y)
    monkeypatch.setattr("bayesvm.active._shortlist._BLOCK_ROWS", 100)
    monkeypatch.setattr("bayesvm.active._rules.PROMISING", 200)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            rng = np.random.default_rng(0)
            found.append([RULES[p].choose(model, pool, 4, None, rng) for p in ("variation_ratio", "bald")])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])


def test_no_row_may_be_chosen():
    X, y = blobs()
    model = BayesianSVC(n_inducing=4, local=False, hyperparameters="fixed", random_state=0).fit(X, y)
    rows, ratios = screened(model, X, 2, np.zeros(len(X), dtype=bool))
    assert rows.size == ratios.size == 0
