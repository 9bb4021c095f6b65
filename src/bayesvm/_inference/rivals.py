"""Rival rules: the sites of a row against all rivals at once, or against one of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from bayesvm._core import gaussian
from bayesvm._core.features import Features
from bayesvm._core.gaussian import Gaussian
from bayesvm._core.grouping import Tiles, grouped_pairs, stable_order
from bayesvm._core.likelihoods import Likelihood, members_of, pair_bound
from bayesvm._core.sites import Statistics, dense_statistics
from bayesvm._inference.blocks import Block
from bayesvm._registry import Registry

# Latent variances below this are rounding: margins are of order one.
MIN_VARIANCE = 1e-10
# Most numbers in a block. Measured: larger blocks gain nothing at ten classes,
# where they leave the cache; with 500 classes they halve the time.
_ALL_NUMBERS = 2_000_000
_ONE_NUMBERS = 2_000_000
_MOST_NUMBERS = 6_000_000
_PAIRS_PER_CLASS = 64
# Blocks are this many times larger on an accelerator, where starting a kernel is expensive.
_ACCELERATOR_SHARE = 64
_ACCELERATOR_COPIES = 12
_ACCELERATOR_NUMBERS = 2**27


class RowSites(NamedTuple):
    """Sites of a block of rows, for one unit of weight.

    Attributes
    ----------
    value : Tensor of shape (N,)
        Expected log-likelihood of each row.
    classes : Tensor of shape (N, K) or None
        Which latent functions the columns of W and G touch; None: all, in order.
    W, G : Tensor of shape (N, K)
    """

    value: Tensor
    classes: Tensor | None
    W: Tensor
    G: Tensor


BlockSites: TypeAlias = Callable[[Block, Statistics], RowSites]
"""The sites of a block; their weighted sums are added to the statistics."""


class RivalRule(Protocol):
    """From latent moments to sites."""

    @property
    def shift_invariant(self) -> bool:
        """Whether the likelihood depends on differences of latents only, so that means may be centred."""
        ...

    @property
    def averaged(self) -> bool:
        """Whether rivals jump between sweeps, so that the sites of several are averaged.

        Sites are then those of the own class and of one rival. Otherwise they
        are those of a bound, and steps that lower it are halved.
        """
        ...

    def block_rows(self, q: Gaussian) -> int:
        """Rows to treat at once: enough for large products, few enough for memory."""
        ...

    def under(self, q: Gaussian, sweep: int) -> BlockSites:
        """The sites of any block under q, in sweep number ``sweep``."""
        ...


@dataclass(frozen=True)
class AllRivals:
    """Exact expectations: every latent function of a row gets a site (eq. 3.3, section 4).

    Parameters
    ----------
    likelihood : Likelihood
    single : bool
        As for ``OneRival``.
    """

    likelihood: Likelihood
    single: bool = False
    averaged: ClassVar[bool] = False

    @property
    def shift_invariant(self) -> bool:
        return self.likelihood.shift_invariant

    def block_rows(self, q: Gaussian) -> int:
        C, P = q.m.shape
        return _larger(_ALL_NUMBERS // (C * max(P, 48)), q)

    def under(self, q: Gaussian, sweep: int) -> BlockSites:
        full, narrow = q.m.dtype, torch.float32 if self.single else q.m.dtype
        roots = gaussian.roots(q).to(narrow)

        def sites(block: Block, into: Statistics) -> RowSites:
            A, residual = block.features
            F = gaussian.mean(q, A)
            V = gaussian.root_variance(roots, A.to(narrow)).to(full)
            s2 = (V + residual[:, None]).clamp_min(MIN_VARIANCE)
            value, slope, W = self.likelihood.row_terms(block.y, F, s2)
            G = slope + W * F
            c = block.weight[:, None]
            precision, linear = dense_statistics(A, c * W, c * G)
            into.precision.add_(precision)
            into.linear.add_(linear)
            return RowSites(value, None, W, G)

        return sites


def n_members(rule: RivalRule) -> int:
    """How many likelihoods have latent functions of their own, side by side.

    Rules other than ``AllRivals`` count as one, even if they wrap a committee.
    """
    return len(members_of(rule.likelihood)) if isinstance(rule, AllRivals) else 1


@dataclass(frozen=True)
class OneRival:
    """The augmented bound against one rival per row: cost independent of C (eq. 3.2).

    Parameters
    ----------
    sampled : bool
        Whether the rival is the argmax of a posterior draw (eq. 4.4) or of the mean.
    seed : int
        Draws depend on this, the sweep and the content of a row alone.
    single : bool
        Whether moments are products in single precision. Their errors even out over
        the rows; sums are made in that of the rows, or they would depend on the blocks.
    """

    sampled: bool
    seed: int = 0
    single: bool = False
    shift_invariant: ClassVar[bool] = True
    averaged: ClassVar[bool] = True

    def block_rows(self, q: Gaussian) -> int:
        C, P = q.m.shape
        # Small groups waste time: some dozens of pairs for every class.
        rows = max(_ONE_NUMBERS // P, _PAIRS_PER_CLASS * C)
        return _larger(min(rows, _MOST_NUMBERS // P), q)

    def under(self, q: Gaussian, sweep: int) -> BlockSites:
        C = q.m.shape[0]
        full, narrow = q.m.dtype, torch.float32 if self.single else q.m.dtype
        roots = gaussian.roots(q)
        draws = Draws.of_factor(*roots, self.seed, sweep) if self.sampled else None
        roots = roots.to(narrow)

        def sites(block: Block, into: Statistics) -> RowSites:
            A, residual = block.features
            if draws is None:
                rival = mean_argmax(q.m, A, block.y)
            else:
                rival = drawn_argmax(draws, block.features, block.y, block.key)
            classes = torch.stack([block.y, rival], 1)
            groups = grouped_pairs(A, classes, C)
            mean, variance = (t.to(full) for t in groups.moments(roots))
            s2 = (variance + residual[:, None]).clamp_min(MIN_VARIANCE)
            value, slope, W = pair_bound(mean, s2)
            G = slope + W * mean
            c = block.weight[:, None]
            groups.add_statistics(c * W, c * G, into)
            return RowSites(value, classes, W, G)

        return sites


RIVALS: Registry[Callable[[Likelihood, int, bool], RivalRule]] = Registry(
    "rival rule",
    {
        "exact": lambda likelihood, seed, single: AllRivals(likelihood, single),
        "sampled": lambda likelihood, seed, single: OneRival(True, seed, single),
        "mean": lambda likelihood, seed, single: OneRival(False, seed, single),
    },
)
"""The rules by name, made from the likelihood, the seed, and whether moments are in single precision."""


def register_rivals(name: str, make: Callable[[Likelihood, int, bool], RivalRule]) -> None:
    """Make a rule available as ``rivals=name``."""
    RIVALS.register(name, make)


def _larger(rows: int, q: Gaussian) -> int:
    """Rows of a block on the device of q, given those that suit a processor."""
    if q.m.device.type == "cpu":
        return rows
    C, P = q.m.shape
    # Features of two pairs a row and products with them; latents of all classes.
    most = _free_numbers(q.m) // (_ACCELERATOR_COPIES * P + C)
    return max(rows, min(_ACCELERATOR_SHARE * rows, most))


def _free_numbers(like: Tensor) -> int:
    """How many numbers may be allocated on a device: a quarter of its free memory."""
    if like.device.type != "cuda":
        return _ACCELERATOR_NUMBERS
    return int(torch.cuda.mem_get_info(like.device)[0]) // (4 * like.element_size())


# --- Posterior draws of whole functions, assigned to rows by their content (eq. 4.4).


N_DRAWS = 32
# From this many classes the latents of the draws are the largest product of
# a sweep; single precision suffices for the winner of a random draw.
_SINGLE_FROM_CLASSES = 64


class Draws(NamedTuple):
    """Functions drawn from q.

    Attributes
    ----------
    v : Tensor of shape (draws, C, P + 1)
        Weights of the whitened features, and of the residual standard
        deviation, which is one more feature of a row.
    sweep : int
        Rows are assigned anew in every sweep.
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
    """The rival that is largest in the draw assigned to a row, shape (N,) (eq. 4.4)."""
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
