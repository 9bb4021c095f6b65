"""Rows that q can be swept over, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from bayesvm.core.gaussian import Gaussian
from bayesvm.inference.blocks import Block, TrainingRows
from bayesvm.inference.epochs import shuffled
from bayesvm.inference.evaluate import Evaluation, evaluate
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.rivals import RivalRule

__all__ = ["InMemory", "Sweepable"]


class Sweepable(Protocol):
    """All rows of a fit: sums over them can be had, some of them are at hand.

    Attributes
    ----------
    known : TrainingRows
        Rows at hand, a random sample of all or all of them. Sites are those
        of these rows; change is measured on them.
    n_rows : int
    total_weight : float
    """

    @property
    def known(self) -> TrainingRows: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def total_weight(self) -> float: ...

    def first(self, n: int) -> Sweepable:
        """About n rows, a random sample, whose weights stand for all rows."""
        ...

    def evaluate(self, rule: RivalRule, q: Gaussian, base: Natural, sweep: int) -> Evaluation:
        """Value and natural parameters of all rows under q, and the sites of the known ones."""
        ...

    def batches(self, size: int, seed: int, epoch: int) -> Iterator[Block]:
        """All rows once, mixed, in minibatches of about that size with their own weights."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Rows that are all at hand."""

    known: TrainingRows

    @property
    def n_rows(self) -> int:
        return len(self.known)

    @property
    def total_weight(self) -> float:
        return float(self.known.weight.sum())

    def first(self, n: int) -> Sweepable:
        return InMemory(self.known.first(n))

    def evaluate(self, rule: RivalRule, q: Gaussian, base: Natural, sweep: int) -> Evaluation:
        return evaluate(self.known, rule, q, base, sweep)

    def batches(self, size: int, seed: int, epoch: int) -> Iterator[Block]:
        for index in shuffled(len(self.known), seed, epoch, self.known.X.device).split(size):
            yield self.known.batch(index)
