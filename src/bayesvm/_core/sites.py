"""Gaussian sites: the q that they make, S^{-1} = I + A^T W A, m = S A^T G (eq. 3.1), and q without some."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from bayesvm._core import linalg
from bayesvm._core.gaussian import from_natural, kl_from


class Statistics(NamedTuple):
    """Sums over rows that determine q, accumulated in place (eq. 3.1).

    Attributes
    ----------
    precision : Tensor of shape (C, P, P)
        Sums of W a a^T.
    linear : Tensor of shape (C, P)
        Sums of G a.
    """

    precision: Tensor
    linear: Tensor

    @classmethod
    def zeros(cls, n_latents: int, n_inducing: int, like: Tensor) -> Statistics:
        """The sums over no rows."""
        return cls(like.new_zeros(n_latents, n_inducing, n_inducing), like.new_zeros(n_latents, n_inducing))


def dense_statistics(A: Tensor, W: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over rows of W a a^T, shape (C, P, P), and G a, shape (C, P) (eq. 3.1)."""
    return dense_precision(A, W), G.mT @ A


def dense_precision(A: Tensor, W: Tensor) -> Tensor:
    """Sums over rows of W a a^T, shape (C, P, P).

    One product of (P × N) by (N × C P) instead of C small ones; the other way
    round takes 1.4 times as long. In blocks of columns the half above the
    diagonal is enough: two thirds of the time.
    """
    P, C = A.shape[1], W.shape[1]
    precision = A.new_empty(C, P, P)
    for block in linalg.column_blocks(P):
        WA = (W[:, :, None] * A[:, None, block]).flatten(1)
        upper = (A[:, : block.stop].mT @ WA).unflatten(1, (C, -1))
        precision[:, : block.stop, block] = upper.transpose(0, 1)
        precision[:, block, : block.start] = upper[: block.start].permute(1, 2, 0)
    return precision


# --- Where q starts: a ridge regression on the labels (eq. 3.6).


RIDGE_PRECISION = 0.5
_RIDGE_MARGIN = 2.0


def ridge_target(y: Tensor, n_latents: int, centred: bool, like: Tensor, n_members: int = 1) -> Tensor:
    """Targets of the latents, shape (N, J) (eq. 3.6), the same for every member of a committee.

    One-hot and centred over the classes where only differences of latents
    matter; else -1 and 1.
    """
    if n_members > 1:
        return ridge_target(y, n_latents // n_members, centred, like).repeat(1, n_members)
    if n_latents == 1:
        return (2 * y - 1).to(like.dtype)[:, None]
    low, high = -1.0, 1.0
    if centred:
        low, high = -_RIDGE_MARGIN / n_latents, _RIDGE_MARGIN * (1.0 - 1.0 / n_latents)
    return like.new_full((y.shape[0], n_latents), low).scatter_(1, y[:, None], high)


def ridge_sites(target: Tensor) -> tuple[Tensor, Tensor]:
    """W and G of the regression, shape (N, C) each, for one unit of weight (eq. 3.6)."""
    W = torch.full_like(target, RIDGE_PRECISION)
    return W, W * target


def ridge_statistics(A: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over rows of c W a a^T, (P, P), the same for all classes, and of c G a, (C, P) (eq. 3.6)."""
    c = (RIDGE_PRECISION * weight)[:, None]
    return (A * c).mT @ A, (c * target).mT @ A


# --- q as a function of the features, for gradients with respect to the kernel.


class PosteriorMoments(NamedTuple):
    """Moments on the training rows of the q given by fixed sites, and its KL.

    Attributes
    ----------
    F, V : Tensor of shape (N, C)
    kl : Tensor of shape ()
        Summed over the latent functions.
    m : Tensor of shape (C, P)
        Means, without gradient.
    """

    F: Tensor
    V: Tensor
    kl: Tensor
    m: Tensor


class _PosteriorFromSites(torch.autograd.Function):
    r"""(A, W, G) -> (F, V, KL) with the gradient with respect to A in closed form.

    With :math:`B_j = S_j A^\top`, adjoints :math:`\bar F, \bar V, \bar k` and
    :math:`u_j = B_j \bar F_j + \bar k S_j m_j = S_j (A^\top \bar F_j + \bar k m_j)`,

    .. math::
        Q_j &= B_j \mathrm{diag}(\bar V_j) B_j^\top + \tfrac12 (u_j m_j^\top + m_j u_j^\top)
               + \tfrac12 \bar k (S_j S_j - S_j), \\
        \bar a_n &= \sum_j \bar F_{nj} m_j + G_{nj} u_j + 2 \bar V_{nj} S_j a_n - 2 W_{nj} Q_j a_n

    (eq. 5.6). All of it is 8 N P^2 C flops in matrix products; autograd
    through batched factorisations and solves takes three times as long. The
    covariances S_j are formed because the gradient needs them themselves;
    since S_j^{-1} >= I this is well conditioned.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, W: Tensor, G: Tensor) -> tuple[Tensor, ...]:
        N, P = A.shape
        C = W.shape[1]
        WA = (W[:, :, None] * A[:, None, :]).reshape(N, C * P)
        eye = torch.eye(P, dtype=A.dtype, device=A.device)
        q = from_natural((WA.mT @ A).reshape(C, P, P) + eye, G.mT @ A)
        S = torch.cholesky_inverse(q.R)
        B = (A @ S.transpose(0, 1).reshape(P, C * P)).reshape(N, C, P)  # rows S_j a_n
        V = (B * A[:, None, :]).sum(-1).clamp_min(0.0)
        trace = S.diagonal(dim1=-2, dim2=-1).sum()
        kl = kl_from(trace, q.m.square().sum(), C * P, linalg.log_det(q.R).sum())
        ctx.save_for_backward(A, G, WA, B, S, q.m)
        ctx.mark_non_differentiable(q.m)
        return A @ q.m.mT, V, kl, q.m

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gF, gV, gk, _ = grads
        A, G, WA, B, S, m = ctx.saved_tensors
        _, C, P = B.shape
        u = (S @ (gF.mT @ A + gk * m).unsqueeze(-1)).squeeze(-1)
        VB = gV.unsqueeze(-1) * B
        outer = u.unsqueeze(-1) * m.unsqueeze(-2)
        Q = VB.permute(1, 2, 0) @ B.transpose(0, 1)
        Q += 0.5 * (outer + outer.mT) + (0.5 * gk) * (S @ S - S)
        gA = gF @ m + G @ u + 2.0 * VB.sum(1)
        gA.addmm_(WA, Q.reshape(C * P, P), alpha=-2.0)
        return gA, None, None


def posterior_moments(A: Tensor, W: Tensor, G: Tensor) -> PosteriorMoments:
    """Recompute q from fixed sites and return its moments, differentiable in A (eqs. 1.4, 3.1, 5.6).

    Weights of rows are already inside W and G.
    """
    return PosteriorMoments(*_PosteriorFromSites.apply(A, W, G))  # type: ignore[no-untyped-call]


# --- Leave-one-out in closed form: q without the sites of a row (section 5).


# Below this the row alone determines q along its own direction and removing
# it is not a small change: the cavity is clipped there and reported.
MIN_REMAINING = 1e-3


class Cavity(NamedTuple):
    """Moments of the latents of each row without that row.

    Attributes
    ----------
    F, V : Tensor of shape (N, C)
        Mean and explained variance; add the residual for the latent variance.
    remaining : Tensor of shape (N, C)
        d = 1 - W V: the share of precision along the row that others provide.
    """

    F: Tensor
    V: Tensor
    remaining: Tensor


def cavity(F: Tensor, V: Tensor, W: Tensor, G: Tensor) -> Cavity:
    """Moments without each row, at fixed sites (eqs. 5.1, 5.2).

    Parameters
    ----------
    F, V, W, G : Tensor of shape (N, C)
        Moments under q, and the sites of what is left out of each row.
    """
    remaining = (1.0 - W * V).clamp_min(MIN_REMAINING)
    return Cavity((F - V * G) / remaining, V / remaining, remaining)


def joint_cavity(F: Tensor, L: Tensor, W: Tensor, G: Tensor) -> Cavity:
    """Moments of some rows without any of them, at fixed sites (eq. 5.10).

    Parameters
    ----------
    F : Tensor of shape (N, C)
        Means under q.
    L : Tensor of shape (C, N, P)
        Roots of the explained covariances of the rows: L L^T.
    W, G : Tensor of shape (N, C)
        The sites of what is left out of each row.
    """
    if L.shape[1] < L.shape[2]:
        L = torch.linalg.qr(L.mT, mode="r").R.mT
    W, G, F = (a.mT.unsqueeze(-1) for a in (W, G, F))
    eye = torch.eye(L.shape[2], dtype=L.dtype, device=L.device)
    remaining, vectors = torch.linalg.eigh(eye - L.mT @ (W * L))
    remaining = remaining.clamp_min(MIN_REMAINING)
    H = L @ vectors
    u = F - L @ (L.mT @ G)
    mean = u + H @ ((H.mT @ (W * u)) / remaining.unsqueeze(-1))
    V = (H.square() / remaining.unsqueeze(-2)).sum(-1)
    return Cavity(mean.squeeze(-1).mT, V.mT, remaining.amin(-1).expand(F.shape[1], -1))
