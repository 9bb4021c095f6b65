"""How the rows' part of the bound changes with the features, at a fixed posterior (eq. 5.7)."""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm._core.gaussian import Gaussian, roots


def second_moments(q: Gaussian) -> Tensor:
    r"""Second moments :math:`S_j + m_j m_j^\top` of q(v_j), shape (C, P, P)."""
    T = roots(q).T
    return T @ T.mT + q.m.unsqueeze(2) * q.m.unsqueeze(1)


def feature_gradient(
    A: Tensor, classes: Tensor | None, W: Tensor, G: Tensor, m: Tensor, M: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Derivatives of the expected log-likelihood with respect to features and residuals (eq. 5.7).

    .. math:: \bar a_n = \sum_j G_{nj} m_j - W_{nj} (S_j + m_j m_j^\top) a_n, \qquad
              \bar r_n = -\tfrac12 \sum_j W_{nj} .

    Exact at fixed q, for sites that q itself gives rise to.

    Parameters
    ----------
    A : Tensor of shape (N, P)
    classes : Tensor of shape (N, K) or None
        Latent functions that the columns of W and G touch; None: all, in order.
    W, G : Tensor of shape (N, K)
        Sites of the rows, weights included.
    m, M : Tensor of shape (C, P) and (C, P, P)
        Means and second moments of q.
    """
    by_residual = -0.5 * W.sum(1)
    if classes is None:
        by_A = G @ m
        for j in range(m.shape[0]):
            by_A.addcmul_(A @ M[j], W[:, j : j + 1], value=-1.0)
        return by_A, by_residual
    by_A = torch.zeros_like(A)
    K = classes.shape[1]
    order = classes.reshape(-1).argsort(stable=True)
    counts = torch.bincount(classes.reshape(-1), minlength=m.shape[0]).tolist()
    W, G = W.reshape(-1), G.reshape(-1)
    for j, pairs in enumerate(order.split(counts)):
        if pairs.numel():
            rows = pairs.div(K, rounding_mode="floor")
            part = torch.outer(G[pairs], m[j]).addcmul_(A[rows] @ M[j], W[pairs, None], value=-1.0)
            by_A.index_add_(0, rows, part)
    return by_A, by_residual
