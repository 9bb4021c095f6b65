"""Conjugate gradients against a dense solve."""

import torch

from bayesvm._inference.ecm import conjugate_gradients
from tests.problems import normal


def _matrix(n: int, rank: int) -> torch.Tensor:
    M = normal(n, rank, seed=0)
    return M @ M.mT


def test_solves_what_a_factorisation_solves():
    K, b = _matrix(12, 20), normal(3, 4, seed=1)
    x = conjugate_gradients(lambda v: (K @ v.reshape(-1)).reshape(3, 4), lambda v: v, b, 100, 1e-12)
    torch.testing.assert_close(x.reshape(-1), torch.linalg.solve(K, b.reshape(-1)))


def test_a_good_preconditioner_needs_one_step():
    K, b = _matrix(12, 20), normal(12, seed=2)
    calls = []

    def product(v):
        calls.append(v)
        return K @ v

    x = conjugate_gradients(product, lambda v: torch.linalg.solve(K, v), b, 100, 1e-8)
    assert len(calls) == 1
    torch.testing.assert_close(x, torch.linalg.solve(K, b))


def test_singular_systems_give_a_solution_where_there_is_one():
    K = _matrix(12, 5)
    b = K @ normal(12, seed=3)
    x = conjugate_gradients(lambda v: K @ v, lambda v: v, b, 100, 1e-12)
    torch.testing.assert_close(K @ x, b, atol=1e-8, rtol=1e-8)


def test_nothing_to_solve_is_zero():
    zero = torch.zeros(4, dtype=torch.float64)
    assert torch.equal(conjugate_gradients(lambda v: 0.0 * v, lambda v: v, zero, 10, 0.1), zero)
    one = torch.ones(4, dtype=torch.float64)  # the map does not bend
    assert torch.equal(conjugate_gradients(lambda v: 0.0 * v, lambda v: v, one, 10, 0.1), zero)
