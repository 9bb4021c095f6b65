"""Which rival a row is paired with (eqs. 4.4, 9.5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bayesvm.core.covariance import Features
from bayesvm.nn.noise import Draw, normals

__all__ = ["N_FUNCTIONS", "deviations", "rival_of_functions", "rival_of_moments"]

# Whole functions that rows share where classes are many.
N_FUNCTIONS = 32


def _best_other(f: Tensor, y: Tensor) -> Tensor:
    return f.scatter(1, y[:, None], -math.inf).argmax(1)


def rival_of_moments(F: Tensor, s2: Tensor | None, y: Tensor, draw: Draw) -> Tensor:
    """The largest of independent draws from a row's latents; without variances that of the means."""
    if s2 is None:
        return _best_other(F, y)
    noise = draw.normals(*F.shape)
    return _best_other(torch.addcmul(F, s2.clamp_min(0.0).sqrt(), noise.to(F.dtype)), y)


def deviations(root: Tensor, table: Tensor, step: Tensor, n_functions: int) -> Tensor:
    r"""Draws :math:`Q^\top \varepsilon` for covariances :math:`Q^\top Q`, shape (C, functions, P)."""
    C, P = root.shape[:2]
    # Keys from here on are those of classes: no batch has as many rows.
    noise = normals(table, step, 2**23, C, n_functions * P).view(C, n_functions, P)
    return noise.to(root.dtype) @ root


def rival_of_functions(functions: Tensor, features: Features, y: Tensor, draw: Draw) -> Tensor:
    """The winner of the function that a row is dealt, by its place in the batch (eq. 4.4).

    Parameters
    ----------
    functions : Tensor of shape (C, functions, P)
    features : Features
    y : Tensor of shape (N,)
    draw : Draw
    """
    A, residual = features
    C, n, P = functions.shape
    N = A.shape[0]
    if n == 1:  # the means
        return _best_other(A @ functions[:, 0].mT, y)
    before = draw.first % n
    padded = torch.nn.functional.pad(A, (0, 0, before, -(before + N) % n))
    dealt = padded.view(-1, n, P).transpose(0, 1)
    f = torch.bmm(dealt, functions.permute(1, 2, 0)).transpose(0, 1).reshape(-1, C)[before : before + N]
    noise = draw.normals(N, C).to(f.dtype)
    return _best_other(torch.addcmul(f, residual.sqrt()[:, None], noise), y)
