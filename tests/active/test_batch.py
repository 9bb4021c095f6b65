"""A batch greedy in the posterior covariance, against dense matrices and common sense."""

import numpy as np
import pytest

from bayesvm import BayesianSVC
from bayesvm.active._rules import RULES, PosteriorCovariance, greedy_batch
from tests.active.problems import blobs, moons


class Dense:
    """A covariance given as one matrix per latent function."""

    def __init__(self, matrices):
        self.matrices = matrices

    def variance(self, rows):
        return np.stack([K.diagonal()[rows] for K in self.matrices], 1)

    def with_row(self, rows, row):
        return np.stack([K[rows, row] for K in self.matrices], 1)


def _matrices(n, n_latents, seed):
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((n_latents, n, n // 2))
    return [R @ R.T + 1e-3 * np.eye(n) for R in roots]


def _by_brute_force(scores, matrices, n):
    chosen = []
    for _ in range(n):
        share = []
        for K in matrices:
            left = K.copy()
            if chosen:
                left = K - K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen])
            share.append(np.maximum(left.diagonal(), 0) / K.diagonal())
        worth = scores * np.mean(share, 0)
        worth[chosen] = -1
        chosen.append(int(worth.argmax()))
    return chosen


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("first_look", [None, 6, 40])
def test_the_batch_is_that_of_conditioning_by_brute_force(seed, first_look):
    matrices = _matrices(40, 3, seed)
    scores = np.random.default_rng(seed).random(40)
    batch = greedy_batch(scores, Dense(matrices), 6, first_look=first_look)
    assert batch.rows.tolist() == _by_brute_force(scores, matrices, 6)


def test_a_copy_is_worth_nothing():
    K = np.array([[1.0, 1.0, 0.1], [1.0, 1.0, 0.1], [0.1, 0.1, 1.0]])
    batch = greedy_batch(np.array([0.9, 0.89, 0.1]), Dense([K]), 3)
    assert batch.rows.tolist() == [0, 2, 1]
    np.testing.assert_allclose(batch.worth[1], [np.nan, 0.0, 0.1 * (1 - 0.1**2)], atol=1e-12)


def test_rows_that_may_not_be_chosen_are_not():
    scores = np.array([-np.inf, 0.5, np.nan, 0.4])
    batch = greedy_batch(scores, Dense([np.eye(4)]), 9)
    assert batch.rows.tolist() == [1, 3]
    assert greedy_batch(np.full(3, -np.inf), Dense([np.eye(3)]), 2).rows.size == 0


@pytest.mark.parametrize("make", [moons, blobs])
def test_the_covariance_is_that_of_joint_draws_at_the_inducing_points(make):
    """Where nothing is left unexplained, draws are joint over rows."""
    X, y = make(60)
    model = BayesianSVC(
        n_inducing=60, local=False, committee=False, hyperparameters="fixed", random_state=0
    ).fit(X, y)
    covariance = PosteriorCovariance(model, X)
    rows = np.arange(60)
    _, std = model.predict_latent(X)
    J = model.model_.m.shape[0]
    scale = 1.0 if J > 1 else 2.0  # two classes share one function, dealt evenly
    np.testing.assert_allclose(covariance.variance(rows)[:, 0], scale * std[:, 0] ** 2, rtol=1e-6)
    draws = model.sample_latent(X, n_samples=4000, random_state=0)
    f = draws[..., 0] if J > 1 else draws[..., 1] - draws[..., 0]
    sampled = np.cov(f.T)[:, 7]
    error = np.sqrt((np.diag(np.cov(f.T)) * np.var(f[:, 7]) + sampled**2) / 4000)
    assert (np.abs(covariance.with_row(rows, 7)[:, 0] - sampled) < 5 * error).all()


def test_the_covariance_knows_what_inducing_points_leave_unexplained():
    X, y = blobs(80)
    model = BayesianSVC(n_inducing=4, local=False, committee=False, random_state=0).fit(X, y)
    twice = np.concatenate([X[:3], X[:3]])
    covariance = PosteriorCovariance(model, twice)
    np.testing.assert_allclose(
        covariance.with_row(np.array([0, 3]), 0), covariance.variance(np.array([0, 0])), rtol=1e-6
    )


def test_near_duplicates_do_not_share_a_batch():
    X, y = blobs(60)
    model = BayesianSVC(local=False, committee=False, random_state=0).fit(X, y)
    spots = np.random.default_rng(0).uniform(-2, 2, (30, 2))
    pool = np.concatenate([spots + 1e-4 * i for i in range(5)])
    rng = np.random.default_rng(0)
    greedy = RULES["batch"].choose(model, pool, 5, None, rng) % 30
    plain = RULES["variation_ratio"].choose(model, pool, 5, None, rng) % 30
    assert len(set(greedy)) == 5
    assert len(set(plain)) == 1
