"""The bound against one rival: its gradient, and both ways of computing it."""

from __future__ import annotations

import pytest
import torch

from bayesvm._core.features import Features
from bayesvm._inference import adam as module
from bayesvm._inference.adam import pair_value


def _problem(C=4, N=30, P=5):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    A, m, residual = normal(N, P), normal(C, P), normal(N).square() + 0.01
    L = (0.3 * normal(C, P, P)).tril() + torch.eye(P, dtype=torch.float64)
    y = torch.randint(C - 1, (N,), generator=generator)  # the last class has rivals only
    rival = (y + 1 + torch.randint(C - 1, (N,), generator=generator)) % C
    return A, residual, m, L, torch.stack([y, rival], 1)


@pytest.fixture(params=["dense", "grouped"])
def way(request, monkeypatch):
    monkeypatch.setattr(module, "_DENSE_WORK", {"cpu": 1e99} if request.param == "dense" else {})


@pytest.mark.usefixtures("way")
def test_value_is_the_augmented_bound():
    A, residual, m, L, classes = _problem()
    S = L @ L.mT
    value = pair_value(Features(A, residual), m, L, classes)
    for n, (y, t) in enumerate(classes.tolist()):
        b = 1.0 + A[n] @ m[t] - A[n] @ m[y]
        spread = A[n] @ S[y] @ A[n] + A[n] @ S[t] @ A[n] + 2 * residual[n]
        torch.testing.assert_close(value[n], -(torch.sqrt(b**2 + spread) + b))


@pytest.mark.usefixtures("way")
def test_gradient_is_that_of_finite_differences():
    A, residual, m, L, classes = _problem(C=3, N=6, P=3)
    free = [t.requires_grad_() for t in (A, residual, m, L)]
    assert torch.autograd.gradcheck(lambda *t: pair_value(Features(*t[:2]), *t[2:], classes), free)
