"""The local part against a dense computation."""

from __future__ import annotations

import torch

from bayesvm._core.nearest import local_mean, nearest


def _problem(N=40, M=7, D=3, J=2):
    generator = torch.Generator().manual_seed(1)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return normal(N, D), normal(M, D), normal(N, J).square(), normal(N, J)


def _covariance(X, Y, variance, length):
    return variance * torch.exp(-((X[:, None] - Y[None]) ** 2).sum(-1) / (2 * length**2))


def test_with_all_rows_as_neighbours_it_is_the_exact_regression():
    X, queries, W, b = _problem()
    W[3] = 0.0  # a row that says nothing about a function
    b[3] = 0.0
    near = nearest(X, queries, len(X), 1.0)
    found = local_mean(X, near, W, b, None, 2.0, 0.7)
    K, k = _covariance(X, X, 2.0, 0.7), _covariance(queries, X, 2.0, 0.7)
    for j in range(W.shape[1]):
        # (K^-1 + W)^-1 b, carried to the queries: k K^-1 (K^-1 + W)^-1 b
        expected = k @ torch.linalg.solve(torch.eye(len(X)).double() + W[:, j, None] * K, b[:, j])
        torch.testing.assert_close(found[:, j], expected)


def test_a_share_of_a_neighbour_is_less_of_its_site():
    X, queries, W, b = _problem()
    near = nearest(X, queries, len(X), 1.0)
    share = torch.where(near.rows == 5, 0.25, 1.0).double()
    less = torch.ones(len(X), 1).double()
    less[5] = 0.25
    torch.testing.assert_close(
        local_mean(X, near, W, b, share, 2.0, 0.7), local_mean(X, near, less * W, less * b, None, 2.0, 0.7)
    )
