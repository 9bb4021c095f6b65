"""The bound as a plain function of means and covariances, for autograd to differentiate."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.rivals import RivalRule
from bayesvm._inference.task import evaluate
from tests.problems import all_features

RowValue = Callable[[Tensor, Tensor], Tensor]


def covariance(q: Gaussian) -> Tensor:
    return torch.cholesky_inverse(q.R)


def bound(rows: TrainingRows, value: RowValue, m: Tensor, S: Tensor) -> Tensor:
    """Weighted row values minus the KL to N(0, I); ``value`` maps (F, s2) to (N,)."""
    A, residual = all_features(rows)
    F = A @ m.mT
    s2 = torch.einsum("np,cpq,nq->nc", A, S, A) + residual[:, None]
    trace = S.diagonal(dim1=1, dim2=2).sum()
    kl = 0.5 * (trace + m.square().sum() - m.numel() - torch.logdet(S).sum())
    return torch.dot(rows.weight, value(F, s2)) - kl


def gradient(rows: TrainingRows, value: RowValue, q: Gaussian) -> tuple[Tensor, Tensor]:
    """Derivatives of the bound with respect to the means and the covariances of q."""
    m, S = q.m.clone().requires_grad_(), covariance(q).requires_grad_()
    by_m, by_S = torch.autograd.grad(bound(rows, value, m, S), [m, S])
    return by_m, 0.5 * (by_S + by_S.mT)


def settle(rows: TrainingRows, rule: RivalRule, n_latents: int, steps: int = 150) -> Gaussian:
    """The fixed point of the site updates, by many half steps and no other control."""
    base = Natural.prior(n_latents, rows.Lz)
    state, q = base.posterior(True)
    for sweep in range(steps):
        state, q = state.towards(evaluate(rows, rule, q, base, sweep).target, 0.5).posterior(True)
    return q
