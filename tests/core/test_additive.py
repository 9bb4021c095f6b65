"""The additive kernel's hand-written backward pass."""

import pytest
import torch

from bayesvm._core.kernels import AdditiveRBF
from tests.problems import normal

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
