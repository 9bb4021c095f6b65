"""The temperature of class probabilities, from leave-one-out latents (eq. 6.7)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.core.predictive import margins_at_nodes

__all__ = ["TEMPERATURES", "loss_curve", "pick_temperature"]

TEMPERATURES: npt.NDArray[np.float64] = 2.0 ** np.linspace(-2.0, 5.0, 22)
# On separable data ever larger temperatures look ever better by nothing:
# take the smallest that is as good to this many nats a row.
_INDIFFERENCE = 1e-3
_BLOCK_NUMBERS = 4_000_000
_NODES = 64


def loss_curve(F: Tensor, s2: Tensor, y: Tensor, weight: Tensor) -> npt.NDArray[np.float64]:
    """Weighted sums over rows of the log-loss at each of ``TEMPERATURES``.

    The latents at the nodes are computed once; a temperature then costs one
    exponential per row, node and class.
    """
    size = max(1, _BLOCK_NUMBERS // (_NODES * F.shape[1]))
    curve = np.zeros(len(TEMPERATURES))
    for start in range(0, F.shape[0], size):
        rows = slice(start, start + size)
        behind, node_weight = margins_at_nodes(F[rows], s2[rows], y[rows], _NODES)
        for i, T in enumerate(TEMPERATURES):
            p = (behind * float(T)).exp_().sum(2).reciprocal_() @ node_weight
            curve[i] -= float(torch.dot(weight[rows], p.clamp_min(torch.finfo(p.dtype).tiny).log()))
    return curve


def pick_temperature(curve: npt.NDArray[np.float64], total_weight: float) -> float:
    """The smallest temperature that is within a thousandth of a nat of the best."""
    mean = curve / total_weight
    return float(TEMPERATURES[np.flatnonzero(mean <= mean.min() + _INDIFFERENCE)[0]])
