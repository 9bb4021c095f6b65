r"""A local part of the latent functions: what rows close by say beyond the inducing points (section 10).

The inducing points carry the smooth part. A second process e with covariance
:math:`\sigma^2 \exp(-d^2 / 2\lambda^2)` and a short length takes up what the sites of a
row say and the smooth part does not. Few neighbours determine it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm.core.nearest import Neighbours

__all__ = ["local_mean"]

_BLOCK_NUMBERS = 4_000_000


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
