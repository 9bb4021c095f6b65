"""Leave-one-out in closed form: remove a row's own sites from q (section 5)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

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
