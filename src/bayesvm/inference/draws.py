"""Posterior draws of whole functions, dealt to rows by their content (eq. 4.4)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm.core import linalg
from bayesvm.core.covariance import Features
from bayesvm.core.gaussian import Gaussian

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
    def of_gaussian(cls, q: Gaussian, seed: int, sweep: int) -> Draws:
        """Draws m + R^{-T} eps."""
        noise = _noise(q.m, seed, sweep)
        P = q.m.shape[1]
        deviation = linalg.solve_lower_transposed(q.R.to(noise.dtype), noise[:, :P])
        return cls._of(q.m, deviation, noise[:, P], sweep)

    @classmethod
    def of_factor(cls, m: Tensor, L: Tensor, seed: int, sweep: int) -> Draws:
        """Draws m + L eps, for covariances L L^T."""
        noise = _noise(m, seed, sweep)
        P = m.shape[1]
        return cls._of(m, L.to(noise.dtype) @ noise[:, :P], noise[:, P], sweep)

    @classmethod
    def _of(cls, m: Tensor, deviation: Tensor, e: Tensor, sweep: int) -> Draws:
        v = torch.cat([m.to(e.dtype)[:, :, None] + deviation, e[:, None, :]], 1)
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
    order = dealt.argsort()
    counts = torch.bincount(dealt, minlength=N_DRAWS).tolist()
    # Rows in the order of their draws, once: a draw's rows are then a slice.
    A = features.A.to(draws.v.dtype).index_select(0, order)
    spread = features.residual.sqrt().to(draws.v.dtype)[order]
    own = y[order, None]
    won = torch.empty_like(y)
    start = 0
    for v, n in zip(draws.v.unbind(), counts, strict=True):
        rows = slice(start, start + n)
        start += n
        F = (A[rows] @ v[:, :-1].mT).addr_(spread[rows], v[:, -1])
        torch.argmax(F.scatter_(1, own[rows], -math.inf), 1, out=won[rows])
    return torch.empty_like(won).scatter_(0, order, won)


def _deal(key: Tensor, sweep: int) -> Tensor:
    """Which draw each row uses: a hash of its content and the sweep."""
    x = key + ((2 * sweep + 1) * 0x1E3779B97F4A7C15) % 2**62
    x = (x ^ (x >> 29)) * 0x3F58476D1CE4E5B9
    return ((x >> 33) & 0x7FFFFFFF) % N_DRAWS
