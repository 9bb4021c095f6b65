"""Minibatches of rows that are read one after the other, whatever chunks they come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bayesvm.core.covariance import Features
from bayesvm.inference.blocks import Block
from bayesvm.rows import mix

__all__ = ["Mixed"]

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
            If the rows are sorted by class, which would throw q to and fro.
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
        # Equal sizes: a few rows left over would speak for all.
        for index in order.tensor_split(max(1, round(n / self.size))):
            yield _part(pool, index)

    def _check_mixed(self, pool: Block) -> None:
        shares = torch.bincount(pool.y, pool.weight, self.shares.shape[0])
        apart = 0.5 * float((shares / shares.sum() - self.shares).abs().sum())
        if apart > _SORTED:
            raise ValueError(
                f"{pool.y.shape[0]} rows in a row have other classes than the rest ({apart:.0%} of them): "
                "the rows seem to be sorted. Minibatches need mixed rows: shuffle them, or use "
                "inference='coordinate', which does not mind"
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
