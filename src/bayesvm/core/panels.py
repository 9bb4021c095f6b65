"""Quadrature of functions that vary on very different scales: panels as narrow as what lies in them."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

__all__ = ["REACH", "panel_nodes"]

# Deviations beyond which a normal distribution function is flat to double precision.
REACH = 8.5
_NODES = 16


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[Tensor, Tensor]:
    """Nodes and weights on (-1, 1), from the eigenvalues of Jacobi's matrix."""
    k = torch.arange(1, _NODES, dtype=torch.float64)
    beta = k / (4.0 * k.square() - 1.0).sqrt()
    x, v = torch.linalg.eigh(torch.diag(beta, 1) + torch.diag(beta, -1))
    return x, 2.0 * v[0].square()


def panel_nodes(F: Tensor, s: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights for functions of (f - F_j) / s_j, j = 1 to C, shape (N, Q) each.

    Around every F_j panels are at most 2 s_j wide. Their edges are multiples
    of powers of two, so that classes share them: their number grows with the
    logarithm of the ratio of the deviations and hardly with C.

    Parameters
    ----------
    F, s : Tensor of shape (N, C)
    edges : Tensor of shape (N, E)
        Further edges; the first is where the integral begins, the last where it ends.
    """
    width = torch.exp2(torch.floor(torch.log2(2.0 * s)))  # in (s, 2 s]
    first = torch.floor((F - REACH * s) / width)
    k = torch.arange(int(2.0 * REACH) + 3, dtype=F.dtype, device=F.device)
    points = (first[:, :, None] + k) * width[:, :, None]
    points = torch.clamp(points.flatten(1), edges[:, :1], edges[:, -1:])
    points = torch.cat([points, edges], 1).sort(1).values
    new = torch.ones_like(points, dtype=torch.bool)
    new[:, 1:] = points[:, 1:] > points[:, :-1]
    position = new.cumsum(1) - 1
    # Rows with fewer edges than others end in panels of no width.
    distinct = edges[:, -1:].repeat(1, int(position[:, -1].max()) + 1)
    distinct.scatter_(1, position, points)
    x, w = (t.to(F) for t in _gauss_legendre())
    half = 0.5 * distinct.diff(dim=1)[:, :, None]
    return (distinct[:, :-1, None] + half * (x + 1.0)).flatten(1), (half * w).flatten(1)
