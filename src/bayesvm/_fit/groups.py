"""Latents of rows without the whole group of each."""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm._core import linalg
from bayesvm._core.sites import Cavity, joint_cavity
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.task import Ascent

_BLOCK_NUMBERS = 8_000_000


def without_groups(rows: TrainingRows, group: Tensor, ascent: Ascent) -> Cavity:
    """Moments of the smooth part at every row without the rows of its group (eq. 5.10).

    One decomposition per group and latent function, as large as the group or as there are
    inducing points, whichever is less.

    Parameters
    ----------
    rows : TrainingRows
    group : Tensor of shape (N,)
        Numbers of the groups, from zero.
    ascent : Ascent
    """
    q = ascent.own
    J, P = q.m.shape
    left = Cavity(*(rows.X.new_empty(len(rows), J) for _ in range(3)))
    members = group.argsort(stable=True).split(torch.bincount(group).tolist())
    for index in members:
        A = rows.features(rows.X[index]).A.double()
        W, G = ((rows.weight[index, None] * a).double() for a in ascent.sites.dense(index, J))
        size = max(1, _BLOCK_NUMBERS // (max(1, len(index)) * P))
        for first in range(0, J, size):
            some = slice(first, first + size)
            m, R = q.m[some].double(), q.R[some].double()
            L = linalg.solve_lower(R, A.mT.expand(len(m), -1, -1)).mT
            found = joint_cavity(A @ m.mT, L, W[:, some], G[:, some])
            for whole, part in zip(left, found, strict=True):
                whole[index, some] = part.to(whole.dtype)
    return left
