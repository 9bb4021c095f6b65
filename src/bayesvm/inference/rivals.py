"""How a row's sites come about: against all rivals at once, or against one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from bayesvm.core import gaussian
from bayesvm.core.gaussian import Gaussian
from bayesvm.core.grouping import ClassGroups
from bayesvm.core.likelihoods import Likelihood, augmented_pair
from bayesvm.core.sites import Statistics, dense_statistics
from bayesvm.inference.blocks import Block
from bayesvm.inference.draws import Draws, drawn_argmax, mean_argmax

__all__ = ["MIN_VARIANCE", "AllRivals", "BlockSites", "OneRival", "RivalRule", "RowSites"]

# Latent variances below this are rounding: margins are of order one.
MIN_VARIANCE = 1e-10
# Numbers that a block may need at once. Measured: larger blocks gain nothing
# at ten classes and lose the cache; with 500 classes they halve the time.
_ALL_NUMBERS = 2_000_000
_ONE_NUMBERS = 4_000_000
_MOST_NUMBERS = 32_000_000
_PAIRS_PER_CLASS = 64


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
    """A way of turning moments into sites."""

    @property
    def shift_invariant(self) -> bool:
        """Whether the likelihood sees differences of latents only, so that means may be centred."""
        ...

    def block_rows(self, n_latents: int, n_inducing: int) -> int:
        """Rows to treat at once: enough for large products, few enough for memory."""
        ...

    def under(self, q: Gaussian, sweep: int) -> BlockSites:
        """The sites of any block under q, in sweep number ``sweep``."""
        ...


@dataclass(frozen=True)
class AllRivals:
    """Exact expectations: every latent function of a row gets a site (section 4).

    Parameters
    ----------
    likelihood : Likelihood
    single : bool
        As for ``OneRival``.
    """

    likelihood: Likelihood
    single: bool = False

    @property
    def shift_invariant(self) -> bool:
        return self.likelihood.shift_invariant

    def block_rows(self, n_latents: int, n_inducing: int) -> int:
        return _ALL_NUMBERS // (n_latents * max(n_inducing, 48))

    def under(self, q: Gaussian, sweep: int) -> BlockSites:
        full, narrow = q.m.dtype, torch.float32 if self.single else q.m.dtype
        q_narrow = Gaussian(q.m.to(narrow), q.R.to(narrow))

        def sites(block: Block, into: Statistics) -> RowSites:
            A, residual = block.features
            F = gaussian.mean(q, A)
            A = A.to(narrow)
            V = gaussian.variance(q_narrow, A).to(full)
            s2 = (V + residual[:, None]).clamp_min(MIN_VARIANCE)
            value, slope, W = self.likelihood.row_terms(block.y, F, s2)
            G = slope + W * F
            c = block.weight[:, None]
            precision, linear = dense_statistics(A, (c * W).to(narrow), (c * G).to(narrow))
            into.precision.add_(precision)
            into.linear.add_(linear)
            return RowSites(value, None, W, G)

        return sites


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
        Whether moments and sums of a block are products in single precision.
        Blocks are added up, and q is factorised, in that of the rows.
    """

    sampled: bool
    seed: int = 0
    single: bool = False
    shift_invariant: ClassVar[bool] = True

    def block_rows(self, n_latents: int, n_inducing: int) -> int:
        # Small groups waste time: some dozens of pairs for every class.
        rows = max(_ONE_NUMBERS // (n_latents + 6 * n_inducing), _PAIRS_PER_CLASS * n_latents)
        return min(rows, _MOST_NUMBERS // (6 * n_inducing))

    def under(self, q: Gaussian, sweep: int) -> BlockSites:
        C = q.m.shape[0]
        draws = Draws.of_gaussian(q, self.seed, sweep) if self.sampled else None
        full, narrow = q.m.dtype, torch.float32 if self.single else q.m.dtype
        q_narrow = Gaussian(q.m.to(narrow), q.R.to(narrow))

        def sites(block: Block, into: Statistics) -> RowSites:
            A, residual = block.features
            if draws is None:
                rival = mean_argmax(q.m, A, block.y)
            else:
                rival = drawn_argmax(draws, block.features, block.y, block.key)
            classes = torch.stack([block.y, rival], 1)
            groups = ClassGroups.of(A.to(narrow), classes, C)
            mean, variance = (t.to(full) for t in groups.moments(q_narrow))
            s2 = (variance + residual[:, None]).clamp_min(MIN_VARIANCE)
            pair = augmented_pair(mean[:, 0], mean[:, 1], s2[:, 0], s2[:, 1])
            W = torch.stack([pair.w, pair.w], 1)
            G = torch.stack([pair.G_y, pair.G_t], 1)
            c = block.weight[:, None]
            groups.add_statistics((c * W).to(narrow), (c * G).to(narrow), into)
            return RowSites(pair.value, classes, W, G)

        return sites
