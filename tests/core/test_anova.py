"""The ANOVA kernel: its hand-written backward pass, and tables for columns with few values."""

import itertools
import math

import pytest
import torch

from bayesvm._core.kernels import Anova
from bayesvm._core.kernels.anova import AnovaFromTables, AnovaOnRows, _groups
from bayesvm._core.kernels.compose import cross_to_inducing, on_rows
from tests.problems import generator, normal

N, P, D = 6, 4, 3


def _plain(params, X, Z):
    b, correlation = torch.sigmoid(params["logits"]), _correlations(params, X, Z)
    return params["log_variance"].exp() * (1 - b + b * correlation).prod(-1)


def _correlations(params, X, Z):
    u = math.sqrt(3) * (X[:, None, :] - Z[None, :, :]).abs() / params["log_length_scale"].exp()
    return (1 + u) * torch.exp(-u)


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
    for function in (Anova().cross, _plain):
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
        lambda X, Z, *v: Anova().cross(dict(zip(names, v, strict=True)), X, Z), inputs
    )


def test_gradient_when_rows_are_their_own_inducing_points():
    X, _, params = _inputs(20)
    gradients = []
    for function in (Anova().cross, _plain):
        x = X.clone().requires_grad_()
        (normal(N, N, seed=21) * function(params, x, x)).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


def test_it_is_a_sum_over_all_sets_of_columns():
    X, Z, params = _inputs(30)
    b, correlation = torch.sigmoid(params["logits"]), _correlations(params, X, Z)
    total = torch.zeros(N, P).double()
    for n in range(D + 1):
        for some in map(list, itertools.combinations(range(D), n)):
            others = [d for d in range(D) if d not in some]
            total += (b[some] * correlation[..., some]).prod(-1) * (1 - b[others]).prod()
    torch.testing.assert_close(Anova().cross(params, X, Z), params["log_variance"].exp() * total)


def test_a_column_without_a_share_does_not_count():
    X, Z, params = _inputs(40)
    params["logits"][1] = -torch.inf
    others = {k: v if not v.ndim else v[[0, 2]] for k, v in params.items()}
    expected = Anova().cross(others, X[:, [0, 2]], Z[:, [0, 2]])
    torch.testing.assert_close(Anova().cross(params, X, Z), expected)


def test_far_apart_rows_keep_what_columns_leave_alone_in_single_precision():
    """Gradients stay finite where factors are as small as they get."""
    X = torch.tensor([[0.0, 0.0], [1e9, -1e9]])
    params = {k: v.requires_grad_() for k, v in Anova().init(X).items()}
    K = Anova().cross(params, X, X)
    torch.testing.assert_close(K[0, 1], torch.tensor(0.3**2), rtol=1e-5, atol=0.0)
    K.sum().backward()
    assert all(bool(v.grad.isfinite().all()) for v in params.values())


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
    prepared = on_rows(Anova(), _rows(*n_values))
    assert isinstance(prepared, AnovaOnRows)
    assert len(prepared.rest) == n_rest


def test_rows_with_many_values_are_computed():
    X, kernel = normal(500, 3, seed=3), Anova()
    assert on_rows(kernel, X) is kernel
    assert not isinstance(cross_to_inducing(kernel, kernel.init(X), X[:4], X), AnovaFromTables)


def test_tables_of_passes_serve_known_values_only():
    X, Z, kernel = _rows(4, 13, 4, 800, 2, n=800), normal(7, 5, seed=1), Anova()
    params = kernel.init(X)
    cross = cross_to_inducing(kernel, params, Z, X)
    assert isinstance(cross, AnovaFromTables)
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("logit", [-40.0, 40.0])
def test_shares_at_their_ends_are_finite_everywhere(dtype, logit):
    X = _rows(3, 4, 5).to(dtype) * 300.0
    params = {k: v.requires_grad_() for k, v in Anova().init(X).items()}
    params["logits"].data.fill_(logit)
    prepared = on_rows(Anova(), X)
    assert isinstance(prepared, AnovaOnRows)
    K = prepared.cross(params, X, X[:6])
    torch.testing.assert_close(K, Anova().cross(params, X, X[:6]), rtol=1e-3, atol=1e-6)
    K.sum().backward()
    assert all(bool(v.grad.isfinite().all()) for v in params.values())
