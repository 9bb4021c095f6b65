"""What methods that go through minibatches share: the order of rows, and when epochs no longer gain."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["LARGEST_LOGARITHM", "recent_gain", "shuffled"]

_RECENT_EPOCHS = 10
# Scales beyond exp(this) either way are a divergence, not a fit.
LARGEST_LOGARITHM = 50.0


def shuffled(n_rows: int, seed: int, epoch: int, device: torch.device) -> Tensor:
    """The order in which an epoch visits rows, by seed and epoch alone.

    Drawn on the CPU, so that it does not depend on the device.
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    return torch.randperm(n_rows, generator=generator).to(device)


def recent_gain(curve: list[float]) -> float:
    """How much the mean bound of the last epochs exceeds that of the ones before."""
    if len(curve) < 2 * _RECENT_EPOCHS:
        return math.inf
    last, before = curve[-_RECENT_EPOCHS:], curve[-2 * _RECENT_EPOCHS : -_RECENT_EPOCHS]
    return (sum(last) - sum(before)) / _RECENT_EPOCHS
