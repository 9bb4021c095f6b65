"""The sums that q is made of, over the rows under the q of before."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bayesvm.core.gaussian import Gaussian
from bayesvm.core.sites import Statistics
from bayesvm.inference.blocks import Block
from bayesvm.inference.rivals import BlockSites, RivalRule

__all__ = ["Sweep", "SweepSums"]


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
        J, P = self.q.m.shape
        with torch.no_grad():
            sums = Statistics.zeros(J, P, self.q.m)
            value = self.q.m.new_zeros(())
            for block in rows.split(self.rule.block_rows(self.q)):
                value += torch.dot(block.weight, self._sites_of(block, sums).value)
        return SweepSums(value, sums.precision, sums.linear, rows.weight.sum(), rows.key.sum())

    @cached_property
    def _sites_of(self) -> BlockSites:
        """Draws and the like, made once for all chunks."""
        return self.rule.under(self.q, self.number)

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to other processes: they make draws of their own, and these are the same."""
        return {"rule": self.rule, "q": self.q, "number": self.number}
