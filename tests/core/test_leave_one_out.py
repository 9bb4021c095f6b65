"""Removing a row's own sites in closed form (eqs. 5.1, 5.2)."""

import pytest
import torch

from bayesvm._core.sites import MIN_REMAINING, cavity, joint_cavity
from tests.problems import normal, uniform
from tests.reference import gaussian_from_sites

N, C, P = 10, 3, 4


def _problem(seed: int, weight: torch.Tensor):
    A, W, G = normal(N, P, seed=seed), uniform(N, C, seed=seed + 1), normal(N, C, seed=seed + 2)
    m, S = gaussian_from_sites(A, weight[:, None] * W, weight[:, None] * G)
    F, V = A @ m.mT, torch.einsum("np,cpq,nq->nc", A, S, A)
    return A, W, G, F, V


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_cavity_is_a_refit_without_the_row_or_a_part_of_it(share):
    weight = uniform(N, seed=9, low=0.1, high=3.7)
    A, W, G, F, V = _problem(0, weight)
    unit = share * weight[:, None]
    left = cavity(F, V, unit * W, unit * G)
    for n in range(N):
        less = weight.clone()
        less[n] = (1.0 - share) * weight[n]
        m, S = gaussian_from_sites(A, less[:, None] * W, less[:, None] * G)
        torch.testing.assert_close(left.F[n], m @ A[n], rtol=0, atol=1e-10)
        torch.testing.assert_close(left.V[n], torch.einsum("p,cpq,q->c", A[n], S, A[n]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_joint_cavity_is_a_refit_without_all_of_the_rows(size, negative):
    """Be they fewer or more than there are inducing points, and whatever the sign of their precisions."""
    A, W, G = normal(N, P, seed=40), uniform(N, C, seed=41), normal(N, C, seed=42)
    if negative:
        W[::4] *= -0.1
    m, S = gaussian_from_sites(A, W, G)
    gone, kept = torch.arange(size), torch.arange(size, N)
    L = A[gone] @ torch.linalg.cholesky(S)
    left = joint_cavity(A[gone] @ m.mT, L, W[gone], G[gone])
    m, S = gaussian_from_sites(A[kept], W[kept], G[kept])
    torch.testing.assert_close(left.F, A[gone] @ m.mT, rtol=0, atol=1e-10)
    V = torch.einsum("np,cpq,nq->nc", A[gone], S, A[gone])
    torch.testing.assert_close(left.V, V, rtol=0, atol=1e-10)
    assert left.remaining.shape == (size, C)
    if size == 1:
        torch.testing.assert_close(left.remaining, 1.0 - W[:1] * L.square().sum(-1).mT)


def test_remaining_share_is_the_ratio_of_variances_with_and_without_the_row():
    _, W, G, F, V = _problem(20, torch.ones(N).double())
    left = cavity(F, V, W, G)
    torch.testing.assert_close(left.remaining, V / left.V)
    assert bool((left.remaining < 1).all())


def test_a_row_without_sites_is_not_needed():
    _, W, G, F, V = _problem(30, torch.ones(N).double())
    left = cavity(F, V, torch.zeros_like(W), torch.zeros_like(G))
    torch.testing.assert_close(left.F, F)
    torch.testing.assert_close(left.V, V)


def test_a_row_that_alone_determines_q_is_clipped_and_reported():
    one = torch.ones(1, 1, dtype=torch.float64)
    left = cavity(one, 0.9999999 * one, one, one)
    assert float(left.remaining) == MIN_REMAINING
    assert bool(torch.isfinite(left.F).all())
    assert bool(torch.isfinite(left.V).all())
