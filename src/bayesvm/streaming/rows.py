"""Rows that stay where they are: sums over all of them, and a sample at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from bayesvm.core.gaussian import Gaussian
from bayesvm.inference.blocks import Block, TrainingRows
from bayesvm.inference.evaluate import Evaluation, evaluate
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.rivals import RivalRule
from bayesvm.inference.sweepable import InMemory, Sweepable
from bayesvm.streaming.chunks import Chunk, changed
from bayesvm.streaming.engine import Engine
from bayesvm.streaming.minibatches import Mixed
from bayesvm.streaming.passes.compose import InParts
from bayesvm.streaming.passes.prepare import PART_ROWS, Below, Featurise, Standardise, kept_bytes
from bayesvm.streaming.passes.sweep import Sweep

__all__ = ["StreamedRows", "streamed"]

# Rows that an accelerator prepares at once where they are not kept.
_PART_ROWS_ACCELERATOR = 2**20
# Share of the weight from which the sample stands for all rows.
_MOST = 0.5


@dataclass(frozen=True)
class StreamedRows:
    """All rows of a fit under a kernel and inducing points (``inference.sweepable.Sweepable``).

    Attributes
    ----------
    engine : Engine
        Over chunks.
    steps : tuple of callables
        What makes features of chunks, in this order.
    n_kept : int
        After how many of these steps the rows are kept in memory, from the first pass on.
    known : TrainingRows
        The sample at hand, with its own weights.
    n_rows : int
    total_weight : float
    checksum : int
        Of all rows (``passes.sample.SampleSums``); every sweep over all of them must find it again.
    """

    engine: Engine[Chunk]
    steps: tuple[Any, ...]
    n_kept: int
    known: TrainingRows
    n_rows: int
    total_weight: float
    checksum: int

    @cached_property
    def _items(self) -> Engine[Any]:
        """What passes start from: features, standardised rows or chunks."""
        return self.engine.kept(_InTurn(self.steps[: self.n_kept])) if self.n_kept else self.engine

    @property
    def _left(self) -> tuple[Any, ...]:
        """The steps that are left to every pass."""
        return self.steps[self.n_kept :]

    def first(self, n: int) -> Sweepable:
        """About n rows: those whose hashes are below some number, or the sample where it is most of all."""
        if float(self.known.weight.sum()) >= _MOST * self.total_weight:  # rows repeat, and few are distinct
            return InMemory(self.known.standing_for(self.total_weight))
        return self if n >= self.n_rows else _Share(self, int(n / self.n_rows * 2.0**63))

    def evaluate(self, rule: RivalRule, q: Gaussian, base: Natural, sweep: int) -> Evaluation:
        """One pass over all rows; the sites are those of the sample.

        Raises
        ------
        ValueError
            If the rows are not those that the sample was drawn from.
        """
        return self.evaluate_some(rule, q, base, sweep, None)

    def evaluate_some(
        self, rule: RivalRule, q: Gaussian, base: Natural, sweep: int, below: int | None
    ) -> Evaluation:
        """The same from the rows whose hashes are below a number, standing for all."""
        work: Any = Sweep(rule, q, sweep)
        steps = list(self._left)
        if below is not None:
            if steps:  # features of the others are not computed
                steps.insert(-1, Below(below))
            else:
                work = _InTurn((Below(below), work))
        if steps:
            parts = PART_ROWS if q.m.device.type == "cpu" else _PART_ROWS_ACCELERATOR
            work = InParts(_InTurn(tuple(steps)), work, parts)
        sums = self._items.total(work)
        if below is None and int(sums.checksum) % 2**64 != self.checksum:
            raise ValueError(changed("values or labels are others than those that the sample was drawn from"))
        # In place: with many classes another copy would cost as much as the sums.
        if below is not None:
            sums = sums.times(self.total_weight / float(sums.weight))
        target = Natural(sums.precision.add_(base.precision), sums.linear.add_(base.linear))
        return Evaluation(float(sums.value), target, evaluate(self.known, rule, q, base, sweep).sites)

    def batches(self, size: int, seed: int, epoch: int) -> Iterator[Block]:
        """Minibatches in the order of reading, mixed over some tens of thousands of rows.

        Raises
        ------
        ValueError
            If the rows are sorted by class.
        """
        shares = torch.bincount(self.known.y, self.known.weight, self.known.n_classes)
        mixed = Mixed(size, seed, epoch, shares / shares.sum())
        return mixed.batches(block for item in self._items.walk() for block in self._prepared(item))

    def _prepared(self, item: Any) -> Iterator[Block]:
        if not self._left:
            yield item
            return
        prepare = _InTurn(self._left)
        for start in range(0, item[0].shape[0], PART_ROWS):
            yield prepare(type(item)(*(column[start : start + PART_ROWS] for column in item)))


@dataclass(frozen=True)
class _Share:
    """A random share of the rows, the same in every pass, that stands for all of them."""

    whole: StreamedRows
    below: int

    @property
    def known(self) -> TrainingRows:
        return self.whole.known

    @property
    def n_rows(self) -> int:
        return self.whole.n_rows

    @property
    def total_weight(self) -> float:
        return self.whole.total_weight

    def first(self, n: int) -> Sweepable:
        return self.whole.first(n)

    def evaluate(self, rule: RivalRule, q: Gaussian, base: Natural, sweep: int) -> Evaluation:
        return self.whole.evaluate_some(rule, q, base, sweep, self.below)

    def batches(self, size: int, seed: int, epoch: int) -> Iterator[Block]:
        return self.whole.batches(size, seed, epoch)


def streamed(
    engine: Engine[Chunk],
    standardise: Standardise,
    known: TrainingRows,
    n_rows: int,
    total_weight: float,
    checksum: int,
    may_keep: int,
) -> StreamedRows:
    """Rows that are kept as far as memory allows: their features, or standardised values, or nothing.

    Parameters
    ----------
    engine, standardise : where the rows are, and what makes tensors of them
    known : TrainingRows
        A sample under the kernel and the inducing points.
    n_rows, total_weight, checksum : of all rows
    may_keep : int
        Bytes.
    """
    featurise = Featurise(known.features_of_many())
    widths = (known.n_inducing, known.X.shape[1])
    features, rows = (kept_bytes(n_rows, width, known.X.element_size()) for width in widths)
    n_kept = 2 if features <= may_keep else 1 if rows <= may_keep else 0
    return StreamedRows(engine, (standardise, featurise), n_kept, known, n_rows, total_weight, checksum)


@dataclass(frozen=True)
class _InTurn:
    """One step after the other: what lies between is gone when the next chunk comes."""

    steps: tuple[Any, ...]

    def __call__(self, item: Any) -> Any:
        for step in self.steps:
            item = step(item)
        return item
