r"""A local part of the latent functions: what rows close by say beyond the inducing points (section 10).

The inducing points carry the smooth part. A second process e with covariance
:math:`\sigma^2 \exp(-d^2 / 2\lambda^2)` and a short length takes up what the sites of a
row say and the smooth part does not. Few neighbours determine it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Neighbours", "local_mean", "nearest"]

_BLOCK_NUMBERS = 4_000_000
# Distances are told apart to this share of the typical one; what is closer
# is a tie, won by the first row, so that rounding cannot choose neighbours.
_RESOLUTION = 1e-7


class Neighbours(NamedTuple):
    """The nearest rows of each query.

    Attributes
    ----------
    rows : Tensor of shape (M, K)
    d2 : Tensor of shape (M, K)
        Squared distances.
    """

    rows: Tensor
    d2: Tensor


def nearest(X: Tensor, queries: Tensor, k: int, typical: float) -> Neighbours:
    """The k nearest rows of X, shape (N, D), ties broken by their order.

    Parameters
    ----------
    X, queries : Tensor of shape (N, D) and (M, D)
        In double precision, about some middle: far from zero, norms cancel.
    k : int
    typical : float
        A typical distance, for telling ties.
    """
    N = X.shape[0]
    k = min(k, N)
    norms = X.square().sum(1)
    order = torch.arange(N, dtype=X.dtype, device=X.device) / (2 * N)
    step = _RESOLUTION * max(typical, torch.finfo(X.dtype).tiny ** 0.25) ** 2
    parts = []
    for some in queries.split(max(1, _BLOCK_NUMBERS // N)):
        d2 = torch.addmm(norms, some, X.mT, alpha=-2.0).add_(some.square().sum(1, keepdim=True))
        key = d2.div_(step).round_().clamp_min_(0.0).add_(order)
        parts.append(key.topk(k, dim=1, largest=False).indices)
    index = torch.cat(parts)
    # Differences, not norms: equal rows are at distance zero.
    d2 = torch.cat(
        [
            (X[i] - q[:, None, :]).square().sum(-1)
            for i, q in zip(
                index.split(max(1, _BLOCK_NUMBERS // (k * X.shape[1]))),
                queries.split(max(1, _BLOCK_NUMBERS // (k * X.shape[1]))),
                strict=True,
            )
        ]
    )
    return Neighbours(index, d2)


def local_mean(
    X: Tensor,
    near: Neighbours,
    W: Tensor,
    b: Tensor,
    share: Tensor | None,
    variance: float,
    length: float,
) -> Tensor:
    r"""Mean of the local part at queries, shape (M, J) (eq. 10.2).

    Parameters
    ----------
    X : Tensor of shape (N, D)
    near : Neighbours
        Of the queries among the rows of X, all in double precision.
    W, b : Tensor of shape (N, J)
        Precisions of the rows' sites and what they pull beyond the smooth part.
    share : Tensor of shape (M, K) or None
        How much of each neighbour counts; None: all of it.
    variance, length : float
        Of the covariance.
    """
    J, K = W.shape[1], near.rows.shape[1]
    size = max(1, _BLOCK_NUMBERS // (K * (J * K + X.shape[1])))
    eye = torch.eye(K, dtype=X.dtype, device=X.device)
    mean = W.new_empty(near.rows.shape[0], J)
    for start in range(0, near.rows.shape[0], size):
        rows = slice(start, start + size)
        i = near.rows[rows]
        k = variance * torch.exp(near.d2[rows] / (-2.0 * length**2))
        close = X[i]
        between = torch.cdist(close, close, compute_mode="donot_use_mm_for_euclid_dist")
        K_near = variance * torch.exp(between.square() / (-2.0 * length**2))
        w, pull = W[i], b[i]
        if share is not None:
            w, pull = w * share[rows, :, None], pull * share[rows, :, None]
        root, pull = w.sqrt().transpose(1, 2), pull.transpose(1, 2)  # (m, J, K)
        # No precision is divided by, so zero is fine; the condition grows with
        # them, and in single precision the I would be lost.
        L = torch.linalg.cholesky(eye + root[..., :, None] * K_near[:, None] * root[..., None, :])
        explained = torch.cholesky_solve((root * (pull @ K_near))[..., None], L)[..., 0]
        mean[rows] = ((pull - root * explained) @ k[..., None])[..., 0]
    return mean
