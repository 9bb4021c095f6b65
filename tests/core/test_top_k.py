"""A few classes with a bound on the others: envelope, variances, probabilities (eqs. 6.10 to 6.12)."""

import pytest
import torch

from bayesvm._core import gaussian, linalg
from bayesvm._core.gaussian import Gaussian
from bayesvm._core.predictive import expected_softmax
from bayesvm._core.top_k import candidate_probabilities, candidates, envelope, largest_growth, pair_variances
from tests.problems import generator, normal, uniform

N, P, C = 12, 5, 30


def _q(seed: int = 0) -> Gaussian:
    B = normal(C, P, 3, seed=seed) * uniform(C, 1, 1, seed=seed + 1, low=0.0, high=4.0)
    R = torch.linalg.cholesky(B @ B.mT + torch.eye(P, dtype=torch.float64))
    return Gaussian(normal(C, P, seed=seed + 2), R)


def test_envelope_is_above_every_variance_and_touches_it_somewhere():
    q = _q()
    root, factor = envelope(q)
    S_j = torch.cholesky_inverse(q.R)
    torch.testing.assert_close(root @ root.mT, S_j.mean(0), rtol=1e-7, atol=0)
    A = normal(4000, P, seed=5)
    bound = factor * (A @ root).square().sum(1, keepdim=True)
    assert bool((gaussian.variance(q, A) <= bound).all())
    half = linalg.solve_lower(root, linalg.solve_lower(root, S_j).mT)
    largest = torch.linalg.eigvalsh(half)[:, -1]
    assert bool((factor >= largest.clamp_min(1.0) * (1.0 - 1e-9)).all())
    assert bool((factor <= (P ** (1 / 32) * largest).clamp_min(1.0) * (1.0 + 1e-9)).all())


def test_envelope_holds_for_covariances_wider_than_the_prior():
    q = Gaussian(
        torch.zeros(2, 2).double(), torch.diag_embed(torch.tensor([[0.1, 1.0], [3.0, 0.2]]).double())
    )
    root, factor = envelope(q)
    A = normal(500, 2, seed=6)
    assert bool((gaussian.variance(q, A) <= factor * (A @ root).square().sum(1, keepdim=True)).all())


def test_variances_of_pairs_are_picked_from_the_dense_ones():
    q, A = _q(), normal(N, P, seed=7)
    classes = torch.randint(C, (N, 4), generator=generator(8))
    torch.testing.assert_close(pair_variances(q, A, classes), gaussian.variance(q, A).gather(1, classes))


def _moments(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Means, deviations of at most 1.5, and what the bound knows of them."""
    growth = largest_growth(torch.ones(C, dtype=torch.float64), 1.5)
    return 4.0 * normal(N, C, seed=seed), uniform(N, C, seed=seed + 1, low=0.0, high=1.5), growth


def test_all_classes_as_candidates_are_the_expected_softmax():
    mean, s, growth = _moments(10)
    chosen = candidates(mean.clone(), growth, C)
    p, left_out = candidate_probabilities(chosen, s.gather(1, chosen.classes))
    dense = expected_softmax(mean, s.square(), 1.0)
    torch.testing.assert_close(p, dense.gather(1, chosen.classes))
    assert not bool(left_out.any())


@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0])
@pytest.mark.parametrize("n_candidates", [1, 3, 10, 29])
def test_what_is_left_out_is_bounded(n_candidates, scale):
    mean, s, _ = _moments(20)
    growth = largest_growth(torch.ones(C, dtype=torch.float64), 1.5 * scale)
    chosen = candidates(scale * mean, growth, n_candidates)
    p, left_out = candidate_probabilities(chosen, scale * s.gather(1, chosen.classes))
    full = expected_softmax(scale * mean, (scale * s).square(), 1.0).gather(1, chosen.classes)
    integral = 1e-4
    assert bool((1.0 - full.sum(1) <= left_out + integral).all())
    assert bool((full <= p + integral).all())
    assert bool((full >= p - left_out[:, None] - integral).all())
    assert bool((left_out <= 1.0).all())


def test_the_bound_is_not_far_above_the_truth_where_little_is_left_out():
    """At its largest deviation the class left out has at least a fourth of what the bound says."""
    mean, s = torch.tensor([[12.0, 9.0, 0.0]]).double(), torch.full((1, 3), 0.7, dtype=torch.float64)
    chosen = candidates(mean.clone(), largest_growth(torch.ones(3, dtype=torch.float64), 0.7), 2)
    _, left_out = candidate_probabilities(chosen, s[:, :2])
    last = float(expected_softmax(mean, s.square(), 1.0)[0, 2])
    assert last <= float(left_out) < 4.0 * last


def test_what_overflows_counts_as_everything():
    growth = largest_growth(torch.ones(4, dtype=torch.float64), 1e4)
    chosen = candidates(torch.zeros(1, 4).double(), growth, 2)
    _, left_out = candidate_probabilities(chosen, torch.full((1, 2), 1e4).double())
    assert bool(torch.isfinite(left_out).all())
    assert 0.5 < float(left_out) <= 1.0
