"""The augmented bound against one rival per row, with its gradient in closed form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bayesvm.core.covariance import Features
from bayesvm.core.likelihoods import augmented_pair
from bayesvm.inference.rivals import MIN_VARIANCE

__all__ = ["pair_bound"]

# All classes in one product, up to this many multiplications more than
# needed, where sorting the rows by class would stop to wait for the device.
_DENSE_WORK = {"cuda": 4e9}


def pair_bound(features: Features, m: Tensor, L: Tensor, classes: Tensor) -> Tensor:
    """Row terms against the rivals, shape (N,) (eq. 2.3).

    Parameters
    ----------
    features : Features
    m : Tensor of shape (C, P)
    L : Tensor of shape (C, P, P)
        Factors of the covariances, S_j = L_j L_j^T.
    classes : Tensor of shape (N, 2)
        Own class and rival.
    """
    return _PairBound.apply(*features, m, L, classes)  # type: ignore[no-untyped-call]


class _PairBound(torch.autograd.Function):
    """Only the two classes that a row touches cost P^2.

    A graph over the products of every class took longer than the products
    themselves where rows are few.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, residual: Tensor, m: Tensor, L: Tensor, classes: Tensor) -> Tensor:
        C, P = m.shape
        N = A.shape[0]
        work = (C - 2.0) * N * P**2
        ctx.dense = work <= _DENSE_WORK.get(A.device.type, 0.0)
        if ctx.dense:
            B = A @ L
            V = torch.linalg.vecdot(B, B).mT.gather(1, classes)
            ctx.save_for_backward(A, m, L, classes, B)
        else:
            label, order = classes.reshape(-1).sort(stable=True)
            ctx.counts = torch.bincount(label, minlength=C).tolist()
            row = order.div(2, rounding_mode="floor")
            touching = A.index_select(0, row)
            B = torch.empty_like(touching)
            for A_j, L_j, B_j in zip(
                touching.split(ctx.counts), L.unbind(), B.split(ctx.counts), strict=True
            ):
                torch.mm(A_j, L_j, out=B_j)
            V = A.new_empty(2 * N).scatter_(0, order, torch.linalg.vecdot(B, B)).view(N, 2)
            ctx.save_for_backward(A, m, L, classes, B, touching, row)
        s2 = (V + residual[:, None]).clamp_min_(MIN_VARIANCE)
        F = (A @ m.mT).gather(1, classes)
        terms = augmented_pair(F[:, 0], F[:, 1], s2[:, 0], s2[:, 1])
        ctx.w = terms.w
        ctx.push = terms.w * (1.0 + F[:, 1] - F[:, 0]) + 1.0
        return terms.value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (g,) = grads
        A, m, L, classes, B, *groups = ctx.saved_tensors
        C, P = m.shape
        N = A.shape[0]
        # Own class up, rival down by (1 + b w); both variances down by w / 2.
        push = g * ctx.push
        gF = A.new_zeros(N, C).scatter_(1, classes, torch.stack([push, -push], 1))
        gV = -0.5 * g * ctx.w
        gA = gF @ m
        if ctx.dense:
            scattered = A.new_zeros(N, C).scatter_(1, classes, gV[:, None].expand(N, 2))
            T = scattered.mT[:, :, None] * B
            gL = A.mT @ T
            gA.addmm_(T.transpose(0, 1).reshape(N, C * P), L.mT.reshape(C * P, P), alpha=2.0)
        else:
            touching, row = groups
            T = gV.index_select(0, row)[:, None] * B
            gL = torch.zeros_like(L)
            back = torch.empty_like(T)
            parts = (touching.split(ctx.counts), T.split(ctx.counts), back.split(ctx.counts))
            for A_j, T_j, back_j, L_j, gL_j in zip(*parts, L.unbind(), gL.unbind(), strict=True):
                torch.mm(A_j.mT, T_j, out=gL_j)
                torch.mm(T_j, L_j.mT, out=back_j)
            gA.index_add_(0, row, back, alpha=2.0)
        return gA, 2.0 * gV, gF.mT @ A, gL.mul_(2.0), None
