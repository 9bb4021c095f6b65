"""A few classes with a bound on the others: envelope, variances, probabilities (eqs. 6.10 to 6.12)."""

import pytest
import torch

from bayesvm._core import gaussian, linalg
from bayesvm._core.gaussian import Gaussian
from bayesvm._core.predictive import expected_softmax, normal_nodes
from bayesvm._core.top_k import candidate_probabilities, candidates, envelope, largest_growth, pair_variances
from tests.problems import generator, normal, uniform

N, P, C, S = 12, 5, 30, 128


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
    mean = 4.0 * normal(N, C, seed=seed)
    return mean, uniform(N, C, seed=seed + 1, low=0.0, high=1.5), normal_nodes(S, C).mT.contiguous()


def test_all_classes_as_candidates_are_the_expected_softmax():
    mean, s, nodes = _moments(10)
    chosen = candidates(mean.clone(), largest_growth(nodes.clamp_min(0.0), 1.5), C)
    p, left_out = candidate_probabilities(chosen, s.gather(1, chosen.classes), nodes)
    dense = expected_softmax(mean, s.square(), 1.0, S)
    torch.testing.assert_close(p, dense.gather(1, chosen.classes))
    assert not bool(left_out.any())


@pytest.mark.parametrize("n_candidates", [1, 3, 10, 29])
def test_what_is_left_out_is_bounded(n_candidates):
    mean, s, nodes = _moments(20)
    chosen = candidates(mean.clone(), largest_growth(nodes.clamp_min(0.0), 1.5), n_candidates)
    p, left_out = candidate_probabilities(chosen, s.gather(1, chosen.classes), nodes)
    full = expected_softmax(mean, s.square(), 1.0, S).gather(1, chosen.classes)
    assert bool((1.0 - full.sum(1) <= left_out + 1e-12).all())
    assert bool((full <= p + 1e-12).all())
    assert bool((full >= p - left_out[:, None] - 1e-12).all())
    assert bool((left_out < 1.0).all())


def test_the_bound_is_attained_where_deviations_are_the_largest_and_nodes_are_above_the_mean():
    """One class left out, at its largest deviation, nodes at or above zero: nothing is given away."""
    mean, nodes = torch.tensor([[2.0, 1.0, 0.0]]).double(), normal(3, 16, seed=30).abs()
    s = torch.full((1, 3), 0.7, dtype=torch.float64)
    chosen = candidates(mean.clone(), largest_growth(nodes, 0.7), 2)
    _, left_out = candidate_probabilities(chosen, s[:, :2], nodes)
    f = mean[:, :, None] + s[:, :, None] * nodes
    torch.testing.assert_close(left_out, torch.softmax(f, 1)[:, 2].mean(1))


def test_what_overflows_counts_as_everything():
    nodes = normal(4, 16, seed=31)
    chosen = candidates(torch.zeros(1, 4).double(), largest_growth(nodes.clamp_min(0.0), 1e4), 2)
    _, left_out = candidate_probabilities(chosen, torch.full((1, 2), 1e4).double(), nodes)
    assert bool(torch.isfinite(left_out).all())
    assert 0.5 < float(left_out) <= 1.0
