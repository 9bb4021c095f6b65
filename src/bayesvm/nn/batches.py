"""Which rows make a batch, and their way to the device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

__all__ = ["batch_order", "batch_shape", "fetch", "seed_of", "slices"]

# GPUs want batches in multiples of this; in small ones the rows that fill them up would weigh too much.
_MULTIPLE, _SMALL = 8, 64


def seed_of(seed: int, *counters: int) -> int:
    """A seed for one purpose of one epoch.

    Everything random in an epoch starts from its own seed, so that an epoch
    can be repeated without those before it: that is what resuming needs.
    """
    return int(np.random.SeedSequence([seed, *counters]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def batch_shape(n_rows: int, batch_size: int) -> tuple[int, int]:
    """Number of batches in an epoch and their common size, at most ``batch_size``.

    One size for all, so that nothing is compiled or captured twice and no
    batch is too small for batch normalisation.
    """
    if n_rows <= batch_size:
        return 1, n_rows
    n_batches = -(-n_rows // batch_size)
    even = -(-n_rows // n_batches)
    return n_batches, even if even < _SMALL else min(batch_size, -(-even // _MULTIPLE) * _MULTIPLE)


def batch_order(n_rows: int, batch_size: int, generator: torch.Generator) -> Tensor:
    """Row numbers of all batches of an epoch, shape (batches, rows); every row is there.

    Shuffled on the CPU, so the order does not depend on the device. Rows
    from the beginning fill up the last batch.
    """
    n_batches, size = batch_shape(n_rows, batch_size)
    order = torch.randperm(n_rows, generator=generator)
    missing = n_batches * size - n_rows
    return torch.cat([order, order[:missing]]).reshape(n_batches, size)


def fetch(rows: Tensor, index: Tensor, device: torch.device) -> Tensor:
    """Some rows, on the device; ``index`` is where ``rows`` are."""
    return rows.index_select(0, index).to(device, non_blocking=True)


def slices(n_rows: int, size: int) -> Iterator[slice]:
    """Consecutive blocks of rows."""
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
