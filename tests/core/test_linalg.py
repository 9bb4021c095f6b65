"""Factorisations and their jitter."""

import pytest
import torch

from bayesvm._core import linalg
from bayesvm._core.linalg import NotPositiveDefiniteError
from tests.problems import normal


def _positive(n: int, seed: int) -> torch.Tensor:
    B = normal(n, n, seed=seed)
    return B @ B.mT + torch.eye(n, dtype=torch.float64)


def test_cholesky_of_a_good_matrix_reproduces_it():
    K = _positive(8, seed=0)
    L = linalg.cholesky(K)
    assert torch.equal(L, L.tril())
    torch.testing.assert_close(L @ L.mT, K, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_jitter_is_relative_so_scale_does_not_matter(scale):
    x = torch.linspace(0, 1, 20, dtype=torch.float64)
    K = torch.exp(-0.5 * (x[:, None] - x) ** 2)  # numerically singular
    L = linalg.cholesky(scale * K)
    torch.testing.assert_close(L @ L.mT / scale, K, atol=1e-7, rtol=0)


def test_rank_deficient_matrices_factorise_within_small_jitter():
    B = normal(10, 3, seed=1)
    K = B @ B.mT
    L = linalg.cholesky(K)
    torch.testing.assert_close(L @ L.mT, K, atol=1e-6, rtol=0)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_hopeless_matrices_raise_and_name_their_size(bad):
    K = torch.eye(4, dtype=torch.float64)
    K[2, 2] = bad
    with pytest.raises(NotPositiveDefiniteError, match="size 4"):
        linalg.cholesky(K)


def test_triangular_solves_quadratic_forms_and_log_determinant():
    K, B = _positive(6, seed=2), normal(6, 4, seed=3)
    L = torch.linalg.cholesky(K)
    torch.testing.assert_close(L @ linalg.solve_lower(L, B), B)
    torch.testing.assert_close(L.mT @ linalg.solve_lower_transposed(L, B), B)
    quadratic = torch.einsum("pi,pq,qi->i", B, torch.linalg.inv(K), B)
    torch.testing.assert_close(linalg.inverse_quadratic(L, B), quadratic)
    torch.testing.assert_close(linalg.log_det(L), torch.logdet(K))


def test_precisions_beyond_the_identity_get_no_jitter():
    K = _positive(5, seed=4)
    R = linalg.cholesky_precision(K)
    torch.testing.assert_close(R @ R.mT, K, rtol=1e-14, atol=1e-13)
