"""Temperature and spread of class probabilities, from leave-one-out latents (eq. 6.7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.core.predictive import margins_at_nodes

__all__ = ["SPREADS", "TEMPERATURES", "Calibration", "fit_calibration", "loss_curve"]

FloatArray = npt.NDArray[np.float64]

TEMPERATURES: FloatArray = 2.0 ** np.linspace(-2.0, 5.0, 22)
SPREADS: FloatArray = 2.0 ** -np.arange(0.0, 4.5, 0.5)
# On separable data ever larger temperatures look ever better by nothing:
# take the smallest that is as good to this many nats a row.
_INDIFFERENCE = 1e-3
# Nats that a spread must gain for each unit of its logarithm: a prior that
# keeps small data sets at one (docs/defaults.md).
_NATS_PER_LOG_SPREAD = 5.0
_BLOCK_NUMBERS = 2_000_000
_NODES = 64


@dataclass(frozen=True)
class Calibration:
    """How latents become class probabilities: E softmax(T f) with Var f scaled by the spread."""

    temperature: float
    spread: float


def loss_curve(F: Tensor, s2: Tensor, y: Tensor, weight: Tensor, temperatures: FloatArray) -> FloatArray:
    """Weighted sums over rows of the log-loss at each temperature.

    The latents at the nodes are computed once; a temperature then costs one
    exponential per row, node and class.
    """
    size = max(1, _BLOCK_NUMBERS // (_NODES * F.shape[1]))
    curve = np.zeros(len(temperatures))
    for start in range(0, F.shape[0], size):
        rows = slice(start, start + size)
        behind, node_weight = margins_at_nodes(F[rows], s2[rows], y[rows], _NODES)
        for i, T in enumerate(temperatures):
            p = (behind * float(T)).exp_().sum(2).reciprocal_() @ node_weight
            curve[i] -= float(torch.dot(weight[rows], p.clamp_min(torch.finfo(p.dtype).tiny).log()))
    return curve


def fit_calibration(F: Tensor, s2: Tensor, y: Tensor, weight: Tensor) -> Calibration:
    """Temperature and spread of least leave-one-out log-loss, within the prior's reach.

    Spreads are tried from one downwards until they no longer pay. The best
    temperature moves little from one spread to the next, so only its
    neighbourhood is searched after the first.
    """
    total = float(weight.sum())
    best: tuple[float, Calibration] | None = None
    window = slice(0, len(TEMPERATURES))
    for spread in SPREADS:
        candidates = TEMPERATURES[window]
        curve = loss_curve(F, float(spread) * s2, y, weight, candidates)
        cost = float(curve.min()) - _NATS_PER_LOG_SPREAD * float(np.log(spread))
        if best is not None and cost >= best[0]:
            break
        T = candidates[np.flatnonzero(curve <= curve.min() + _INDIFFERENCE * total)[0]]
        best = (cost, Calibration(float(T), float(spread)))
        middle = int(np.flatnonzero(candidates[int(curve.argmin())] == TEMPERATURES)[0])
        window = slice(max(0, middle - 3), middle + 2)
    assert best is not None
    return best[1]
