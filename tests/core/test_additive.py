"""The additive kernel: its hand-written backward pass, and tables for columns with few values."""

import pytest
import torch

from bayesvm._core.kernels import AdditiveRBF
from bayesvm._core.kernels.additive import AdditiveFromTables, AdditiveOnRows, _groups
from bayesvm._core.kernels.compose import cross_to_inducing, on_rows
from tests.problems import generator, normal

N, P, D = 6, 4, 3


def _plain(params, X, Z):
    w = params["log_variance"].exp() * torch.softmax(params["logits"], 0)
    distance = (X[:, None, :] - Z[None, :, :]) / params["log_length_scale"].exp()
    return (w * torch.exp(-0.5 * distance.square())).sum(-1)


def _inputs(seed):
    X, Z = normal(N, D, seed=seed), normal(P, D, seed=seed + 1)
    params = {
        "log_variance": torch.tensor(0.3).double(),
        "logits": normal(D, seed=seed + 2),
        "log_length_scale": 0.3 * normal(D, seed=seed + 3),
    }
    return X, Z, params


@pytest.mark.parametrize("moving", [("X", "Z"), ("X",), ("Z",), ()])
def test_all_gradients_are_autograd_s(moving):
    X, Z, params = _inputs(0)
    U = normal(N, P, seed=9)
    gradients = []
    for function in (AdditiveRBF().cross, _plain):
        x, z = X.clone().requires_grad_("X" in moving), Z.clone().requires_grad_("Z" in moving)
        theta = {k: v.clone().requires_grad_() for k, v in params.items()}
        (U * function(theta, x, z)).sum().backward()
        gradients.append([t.grad for t in (*theta.values(), x, z)])
    for ours, theirs in zip(*gradients, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs)


def test_cross_passes_gradcheck_in_rows_inducing_points_and_parameters():
    X, Z, params = _inputs(10)
    names = list(params)
    inputs = [t.requires_grad_() for t in (X, Z, *params.values())]
    assert torch.autograd.gradcheck(
        lambda X, Z, *v: AdditiveRBF().cross(dict(zip(names, v, strict=True)), X, Z), inputs
    )


def test_gradient_when_rows_are_their_own_inducing_points():
    X, _, params = _inputs(20)
    gradients = []
    for function in (AdditiveRBF().cross, _plain):
        x = X.clone().requires_grad_()
        (normal(N, N, seed=21) * function(params, x, x)).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


def test_shares_are_a_convex_combination():
    X, Z, params = _inputs(30)
    K = AdditiveRBF().cross(params, X, X)
    torch.testing.assert_close(K.diagonal(), params["log_variance"].exp().expand(N))
    one = AdditiveRBF().cross({**params, "logits": torch.tensor([50.0, 0.0, 0.0]).double()}, X, Z)
    scale = params["log_length_scale"].exp()[0]
    alone = params["log_variance"].exp() * torch.exp(-0.5 * ((X[:, :1] - Z[:, 0]) / scale).square())
    torch.testing.assert_close(one, alone)


def _rows(*n_values: int, n: int = 60) -> torch.Tensor:
    """Columns with so many values, not evenly spaced."""
    g = generator(0)
    columns = [
        normal(size, seed=100 + d)[torch.randint(size, (n,), generator=g)] for d, size in enumerate(n_values)
    ]
    return torch.stack(columns, 1)


@pytest.mark.parametrize(
    ("n_values", "n_rest"), [((2, 3, 17), 0), ((2, 50, 3, 60, 1), 2), ((3, 3, 40), 1)], ids=str
)
def test_columns_with_few_values_share_a_table_while_the_kernel_is_learned(n_values, n_rest):
    """The battery of all kernels compares the numbers."""
    prepared = on_rows(AdditiveRBF(), _rows(*n_values))
    assert isinstance(prepared, AdditiveOnRows)
    assert len(prepared.rest) == n_rest


def test_rows_with_many_values_are_computed():
    X, kernel = normal(500, 3, seed=3), AdditiveRBF()
    assert on_rows(kernel, X) is kernel
    assert not isinstance(cross_to_inducing(kernel, kernel.init(X), X[:4], X), AdditiveFromTables)


def test_tables_of_passes_serve_known_values_only():
    X, Z, kernel = _rows(4, 13, 4, 800, 2, n=800), normal(7, 5, seed=1), AdditiveRBF()
    params = kernel.init(X)
    cross = cross_to_inducing(kernel, params, Z, X)
    assert isinstance(cross, AdditiveFromTables)
    assert sorted(cross.columns.tolist()) == [0, 1, 2, 4]
    assert cross.rest.tolist() == [3]
    cross.table.fill_(torch.nan)
    assert bool(cross(X).isnan().all())
    for value in (0.123, 99.0, -99.0):  # between two values, above and below all of them
        new = X[:20].clone()
        new[7, 1] = value
        torch.testing.assert_close(cross(new), kernel.cross(params, new, Z))


def test_columns_share_tables_as_long_as_these_are_small():
    cards = {d: 13 if d % 2 else 4 for d in range(10)}
    groups = _groups(cards, 1024)
    assert len(groups) == 3
    assert sorted(d for group in groups for d in group) == list(range(10))
    assert _groups({0: 30, 1: 2}, 8) == [[0], [1]]
