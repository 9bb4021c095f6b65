"""Posterior draws of whole functions, dealt to rows by their content (eq. 4.4)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm.core.covariance import Features
from bayesvm.core.grouping import stable_order
from bayesvm.core.tiles import Tiles

__all__ = ["Draws", "drawn_argmax", "mean_argmax"]

N_DRAWS = 32
# From this many classes the latents of the draws are the largest product of
# a sweep; which rival wins a random draw needs no double precision.
_SINGLE_FROM_CLASSES = 64


class Draws(NamedTuple):
    """Functions drawn from q.

    Attributes
    ----------
    v : Tensor of shape (draws, C, P + 1)
        Weights of the whitened features, and of the residual standard
        deviation, which is one more feature of a row.
    sweep : int
        Rows are dealt anew in every sweep.
    """

    v: Tensor
    sweep: int

    @classmethod
    def of_factor(cls, m: Tensor, L: Tensor, seed: int, sweep: int) -> Draws:
        """Draws m + L eps, for covariances L L^T."""
        noise = _noise(m, seed, sweep)
        P = m.shape[1]
        e = noise[:, P]
        v = torch.cat([m.to(e.dtype)[:, :, None] + L.to(e.dtype) @ noise[:, :P], e[:, None, :]], 1)
        return cls(v.permute(2, 0, 1).contiguous(), sweep)


def _dtype(m: Tensor) -> torch.dtype:
    return torch.float32 if m.shape[0] >= _SINGLE_FROM_CLASSES else m.dtype


def _noise(like: Tensor, seed: int, sweep: int) -> Tensor:
    C, P = like.shape
    generator = torch.Generator().manual_seed((seed * 1_000_003 + sweep) % 2**63)
    # Single precision draws are four times as fast and as good.
    return torch.randn(C, P + 1, N_DRAWS, generator=generator, dtype=torch.float32).to(
        like.device, _dtype(like)
    )


def mean_argmax(m: Tensor, A: Tensor, y: Tensor) -> Tensor:
    """The rival with the largest mean, shape (N,)."""
    return (A @ m.mT).scatter_(1, y[:, None], -math.inf).argmax(1)


def drawn_argmax(draws: Draws, features: Features, y: Tensor, key: Tensor) -> Tensor:
    """The rival that is largest in the draw a row was dealt, shape (N,)."""
    dealt = _deal(key, draws.sweep)
    order = stable_order(dealt, N_DRAWS)
    if y.device.type != "cpu":
        return _tiled_argmax(draws, features, y, Tiles.of(dealt, order, N_DRAWS))
    counts = torch.bincount(dealt, minlength=N_DRAWS).tolist()
    A = features.A.to(draws.v.dtype)
    spread = features.residual.sqrt().to(draws.v.dtype)
    won = torch.empty_like(y)
    for v, rows in zip(draws.v.unbind(), order.split(counts), strict=True):
        F = _latents(A.index_select(0, rows), spread.index_select(0, rows), v)
        F.scatter_(1, y.index_select(0, rows)[:, None], -math.inf)
        # Along contiguous rows numpy is ten times as fast.
        won.index_copy_(0, rows, torch.from_numpy(F.numpy().argmax(1)))
    return won


def _latents(A: Tensor, spread: Tensor, v: Tensor) -> Tensor:
    """Latents of rows in one draw v (C, P + 1), shape (N, C)."""
    if v.shape[0] <= A.shape[1]:
        return (A @ v[:, :-1].mT).addr_(spread, v[:, -1])
    # With many classes one more column of the features takes less than another pass over the latents.
    return torch.cat([A, spread[:, None]], 1) @ v.mT


def _tiled_argmax(draws: Draws, features: Features, y: Tensor, tiles: Tiles) -> Tensor:
    """The same in a fixed number of calls, for an accelerator."""
    A = tiles.gather(features.A.to(draws.v.dtype))
    spread = tiles.gather(features.residual.sqrt().to(draws.v.dtype)).unsqueeze(2)
    v = draws.v.index_select(0, tiles.group).mT
    F = torch.baddbmm(spread * v[:, -1:], A, v[:, :-1])
    return tiles.back(F.scatter_(2, tiles.gather(y).unsqueeze(2), -math.inf).argmax(2))


def _deal(key: Tensor, sweep: int) -> Tensor:
    """Which draw each row uses: a hash of its content and the sweep."""
    x = key + ((2 * sweep + 1) * 0x1E3779B97F4A7C15) % 2**62
    x = (x ^ (x >> 29)) * 0x3F58476D1CE4E5B9
    return ((x >> 33) & 0x7FFFFFFF) % N_DRAWS
