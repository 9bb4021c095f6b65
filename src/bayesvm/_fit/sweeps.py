"""Streamed rows: sums over all of them, and a sample in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bayesvm._core.features import Features
from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._fit.engine import Chunk, Engine, changed
from bayesvm._fit.passes import InParts
from bayesvm._fit.prepare import PART_ROWS, Featurise, KeyThreshold, Standardise, kept_bytes
from bayesvm._fit.rows import mix
from bayesvm._inference.blocks import Block, TrainingRows
from bayesvm._inference.rivals import BlockSites, RivalRule
from bayesvm._inference.task import InMemory, PassResult, Sweepable, evaluate, n_parts, sweep_over
from bayesvm._threads import thread_workers

# --- Minibatches of rows that are read one after the other, independent of their chunks.


# Rows that wait in memory to be mixed, at least, and minibatches among them.
_POOL_ROWS = 32_768
_POOL_BATCHES = 8
# Pools whose classes differ from those of all rows by more than this share are not mixed.
_SORTED = 0.5


@dataclass(frozen=True)
class Mixed:
    """Cuts rows into pools by their number and mixes each by the content of its rows.

    So minibatches depend on the order of the rows and not on their chunks.

    Parameters
    ----------
    size : int
        Rows of a minibatch, about.
    seed, epoch : int
        Each epoch mixes anew.
    shares : Tensor of shape (C,)
        Share of every class in the weight of all rows.
    """

    size: int
    seed: int
    epoch: int
    shares: Tensor

    def batches(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """All rows once.

        Raises
        ------
        ValueError
            If the rows are sorted by class, which would make q oscillate.
        """
        for pool in self._pools(blocks):
            yield from self._cut(pool)

    def _pools(self, blocks: Iterable[Block]) -> Iterator[Block]:
        most = max(_POOL_ROWS, _POOL_BATCHES * self.size)
        waiting: list[Block] = []
        for block in blocks:
            waiting.append(block)
            while sum(b.y.shape[0] for b in waiting) >= most:
                together = _joined(waiting)
                yield _part(together, slice(0, most))
                rest = slice(most, together.y.shape[0])
                waiting = [_part(together, rest)] if rest.stop > most else []
        if waiting:
            yield _joined(waiting)

    def _cut(self, pool: Block) -> Iterator[Block]:
        n = pool.y.shape[0]
        if n >= _POOL_ROWS:
            self._check_mixed(pool)
        # Seed and epoch shift the hashes of the rows before they are scattered again.
        shift = mix(mix(np.array([self.seed], dtype=np.uint64)) + np.uint64(self.epoch))
        with np.errstate(over="ignore"):
            scattered = mix(pool.key.cpu().numpy().astype(np.uint64) + shift)
        order = torch.as_tensor(np.argsort(scattered, kind="stable")).to(pool.y.device)
        # Equal sizes: a small last batch would be scaled up to all rows.
        for index in order.tensor_split(max(1, round(n / self.size))):
            yield _part(pool, index)

    def _check_mixed(self, pool: Block) -> None:
        shares = torch.bincount(pool.y, pool.weight, self.shares.shape[0])
        apart = 0.5 * float((shares / shares.sum() - self.shares).abs().sum())
        if apart > _SORTED:
            raise ValueError(
                f"{pool.y.shape[0]} rows in a row have other classes than the rest ({apart:.0%} of them): "
                "the rows seem to be sorted. Minibatches need mixed rows: shuffle them, or use "
                "inference='coordinate', which does not depend on their order"
            )


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    A, residual = (torch.cat([b.features[i] for b in blocks]) for i in (0, 1))
    y, weight, key = (torch.cat([getattr(b, name) for b in blocks]) for name in ("y", "weight", "key"))
    return Block(slice(0, y.shape[0]), Features(A, residual), y, weight, key)


def _part(block: Block, index: Tensor | slice) -> Block:
    y = block.y[index]
    features = Features(block.features.A[index], block.features.residual[index])
    return Block(slice(0, y.shape[0]), features, y, block.weight[index], block.key[index])


# --- The sums that the next q is computed from, over all rows under the current q.


class SweepSums(NamedTuple):
    """Expected log-likelihood, the sums of W a a^T and G a (eq. 3.1), the weight of the rows, and a checksum.

    The checksum is the sum of their content keys, as integers that wrap.
    """

    value: Tensor
    precision: Tensor
    linear: Tensor
    weight: Tensor
    checksum: Tensor

    def plus(self, other: SweepSums) -> SweepSums:
        for mine, theirs in zip(self, other, strict=True):
            mine.add_(theirs)
        return self

    def times(self, factor: float) -> SweepSums:
        """All of them multiplied, but for the checksum."""
        for mine in self[:-1]:
            mine.mul_(factor)
        return self


@dataclass(frozen=True)
class Sweep:
    """One evaluation of all rows.

    Attributes
    ----------
    rule : RivalRule
    q : Gaussian
    number : int
        Of the sweep; draws are keyed on it and on the rows, never on chunks.
    """

    rule: RivalRule
    q: Gaussian
    number: int

    def __call__(self, rows: Block) -> SweepSums:
        blocks = list(rows.split(self.rule.block_rows(self.q)))
        with torch.no_grad(), thread_workers(n_parts(self.q, len(blocks))) as workers:
            parts = [blocks[i :: workers.size] for i in range(workers.size)]
            value, sums, _ = sweep_over(parts, self.q, self._sites_of, workers)
        return SweepSums(value, sums.precision, sums.linear, rows.weight.sum(), rows.key.sum())

    @cached_property
    def _sites_of(self) -> BlockSites:
        """Draws and other preparations, once for all chunks."""
        return self.rule.under(self.q, self.number)

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without the draws: other processes draw the same ones themselves."""
        return {"rule": self.rule, "q": self.q, "number": self.number}


# Rows that an accelerator prepares at once where they are not kept.
_PART_ROWS_ACCELERATOR = 2**20
# Share of the weight from which the sample replaces all rows.
_MOST = 0.5


@dataclass(frozen=True)
class StreamedRows:
    """All rows of a fit under a kernel and inducing points (``_inference.task.Sweepable``).

    Attributes
    ----------
    engine : Engine
        Over chunks.
    steps : tuple of callables
        From chunks to features, in this order.
    n_kept : int
        After how many of these steps the rows are kept in memory, from the first pass on.
    sample : TrainingRows
        The sample in memory, with its own weights.
    n_rows : int
    total_weight : float
    checksum : int
        Of all rows (``passes.SampleSums``); every sweep over all of them must find it again.
    """

    engine: Engine[Chunk]
    steps: tuple[Any, ...]
    n_kept: int
    sample: TrainingRows
    n_rows: int
    total_weight: float
    checksum: int

    @cached_property
    def _items(self) -> Engine[Any]:
        """What passes start from: features, standardised rows or chunks."""
        return self.engine.kept(_Pipeline(self.steps[: self.n_kept])) if self.n_kept else self.engine

    @property
    def _left(self) -> tuple[Any, ...]:
        """The steps that are left to every pass."""
        return self.steps[self.n_kept :]

    def first(self, n: int) -> Sweepable:
        """About n rows: those whose hashes are below some number, or the sample where it is most of all."""
        if float(self.sample.weight.sum()) >= _MOST * self.total_weight:  # rows repeat, and few are distinct
            return InMemory(self.sample.standing_for(self.total_weight))
        return self if n >= self.n_rows else _Share(self, int(n / self.n_rows * 2.0**63))

    def evaluate(self, rule: RivalRule, q: Gaussian, base: Natural, sweep: int) -> PassResult:
        """One pass over all rows; the sites are those of the sample.

        Raises
        ------
        ValueError
            If the rows are not those that the sample was drawn from.
        """
        return self.evaluate_some(rule, q, base, sweep, None)

    def evaluate_some(
        self, rule: RivalRule, q: Gaussian, base: Natural, sweep: int, below: int | None
    ) -> PassResult:
        """The same from the rows whose hashes are below a number, scaled to all rows."""
        work: Any = Sweep(rule, q, sweep)
        steps = list(self._left)
        if below is not None:
            if steps:  # features of the others are not computed
                steps.insert(-1, KeyThreshold(below))
            else:
                work = _Pipeline((KeyThreshold(below), work))
        if steps:
            parts = PART_ROWS if q.m.device.type == "cpu" else _PART_ROWS_ACCELERATOR
            work = InParts(_Pipeline(tuple(steps)), work, parts)
        sums = self._items.total(work)
        if below is None and int(sums.checksum) % 2**64 != self.checksum:
            raise ValueError(changed("values or labels differ from those that the sample was drawn from"))
        # In place: with many classes another copy would cost as much as the sums.
        if below is not None:
            sums = sums.times(self.total_weight / float(sums.weight))
        target = Natural(sums.precision.add_(base.precision), sums.linear.add_(base.linear))
        return PassResult(float(sums.value), target, evaluate(self.sample, rule, q, base, sweep).sites)

    def batches(self, size: int, seed: int, epoch: int) -> Iterator[Block]:
        """Minibatches in the order of reading, mixed over some tens of thousands of rows.

        Raises
        ------
        ValueError
            If the rows are sorted by class.
        """
        shares = torch.bincount(self.sample.y, self.sample.weight, self.sample.n_classes)
        mixed = Mixed(size, seed, epoch, shares / shares.sum())
        return mixed.batches(block for item in self._items.walk() for block in self._prepared(item))

    def _prepared(self, item: Any) -> Iterator[Block]:
        if not self._left:
            yield item
            return
        prepare = _Pipeline(self._left)
        for start in range(0, item[0].shape[0], PART_ROWS):
            yield prepare(type(item)(*(column[start : start + PART_ROWS] for column in item)))


@dataclass(frozen=True)
class _Share:
    """A random share of the rows, the same in every pass, weighted to represent all of them."""

    whole: StreamedRows
    below: int

    @property
    def sample(self) -> TrainingRows:
        return self.whole.sample

    @property
    def n_rows(self) -> int:
        return self.whole.n_rows

    @property
    def total_weight(self) -> float:
        return self.whole.total_weight

    def first(self, n: int) -> Sweepable:
        return self.whole.first(n)

    def evaluate(self, rule: RivalRule, q: Gaussian, base: Natural, sweep: int) -> PassResult:
        return self.whole.evaluate_some(rule, q, base, sweep, self.below)

    def batches(self, size: int, seed: int, epoch: int) -> Iterator[Block]:
        return self.whole.batches(size, seed, epoch)


def streamed(
    engine: Engine[Chunk],
    standardise: Standardise,
    sample: TrainingRows,
    n_rows: int,
    total_weight: float,
    checksum: int,
    may_keep: int,
) -> StreamedRows:
    """Rows cached as far as memory allows: their features, or standardised values, or nothing.

    Parameters
    ----------
    engine, standardise : the rows, and how they become tensors
    sample : TrainingRows
        A sample under the kernel and the inducing points.
    n_rows, total_weight, checksum : of all rows
    may_keep : int
        Bytes.
    """
    featurise = Featurise(sample.features_of_many())
    widths = (sample.n_inducing, sample.X.shape[1])
    features, rows = (kept_bytes(n_rows, width, sample.X.element_size()) for width in widths)
    n_kept = 2 if features <= may_keep else 1 if rows <= may_keep else 0
    return StreamedRows(engine, (standardise, featurise), n_kept, sample, n_rows, total_weight, checksum)


@dataclass(frozen=True)
class _Pipeline:
    """Steps in sequence; intermediate results are freed before the next chunk."""

    steps: tuple[Any, ...]

    def __call__(self, item: Any) -> Any:
        for step in self.steps:
            item = step(item)
        return item
