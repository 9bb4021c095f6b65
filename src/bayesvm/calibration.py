"""Temperature and spread of class probabilities, from leave-one-out latents (eq. 6.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.core.elementwise import LOG2_E
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
_BLOCK_NUMBERS = 200_000
_NODES = 64
_STRIDE = 3


@dataclass(frozen=True)
class Calibration:
    """How latents become class probabilities: E softmax(T f) with Var f scaled by the spread."""

    temperature: float
    spread: float


def loss_curve(F: Tensor, s2: Tensor, y: Tensor, weight: Tensor, temperatures: FloatArray) -> FloatArray:
    """Weighted sums over rows of the log-loss at each temperature.

    The latents at the nodes are computed once; a temperature then costs one
    power per row, node and class. Single precision: the curve is compared at
    a thousandth of a nat, and this is most of what follows a small fit.
    """
    size = max(1, _BLOCK_NUMBERS // (_NODES * F.shape[1]))
    curve = np.zeros(len(temperatures))
    for start in range(0, F.shape[0], size):
        rows = slice(start, start + size)
        behind, node_weight = margins_at_nodes(F[rows].float(), s2[rows].float(), y[rows], _NODES)
        scratch = torch.empty_like(behind)
        for i, T in enumerate(temperatures):
            p = torch.mul(behind, LOG2_E * float(T), out=scratch).exp2_().sum(0).reciprocal_() @ node_weight
            log_p = p.clamp_min_(torch.finfo(p.dtype).tiny).log_().to(weight.dtype)
            curve[i] -= float(torch.dot(weight[rows], log_p))
    return curve


def fit_calibration(F: Tensor, s2: Tensor, y: Tensor, weight: Tensor) -> Calibration:
    """Temperature and spread of least leave-one-out log-loss, within the prior's reach.

    Spreads are tried from one downwards until they no longer pay. The best
    temperature moves little from one spread to the next, so only its
    neighbourhood is searched after the first.
    """
    slack = _INDIFFERENCE * float(weight.sum())
    best: tuple[float, Calibration] | None = None
    middle: int | None = None
    for spread in SPREADS:
        variances = float(spread) * s2

        def losses(index: npt.NDArray[np.int64], s2: Tensor = variances) -> FloatArray:
            return loss_curve(F, s2, y, weight, TEMPERATURES[index])

        if middle is None:
            curve = _coarse_to_fine(losses, slack)
        else:
            curve = np.full(len(TEMPERATURES), np.inf)
            near = np.arange(max(0, middle - 3), min(middle + 2, len(curve)))
            curve[near] = losses(near)
        cost = float(curve.min()) - _NATS_PER_LOG_SPREAD * float(np.log(spread))
        if best is not None and cost >= best[0]:
            break
        T = TEMPERATURES[np.flatnonzero(curve <= curve.min() + slack)[0]]
        best = (cost, Calibration(float(T), float(spread)))
        middle = int(curve.argmin())
    assert best is not None
    return best[1]


def _coarse_to_fine(losses: Callable[[npt.NDArray[np.int64]], FloatArray], slack: float) -> FloatArray:
    """The curve where it matters, infinity elsewhere: around its minimum and where it comes within the slack.

    It has one valley, so every third temperature shows where to look closer.
    """
    curve = np.full(len(TEMPERATURES), np.inf)
    coarse = np.arange(0, len(curve), _STRIDE)
    curve[coarse] = losses(coarse)
    least, first = int(curve.argmin()), int(np.flatnonzero(curve <= curve.min() + slack)[0])
    closer = {*range(first - _STRIDE + 1, first), *range(least - _STRIDE + 1, least + _STRIDE)}
    fine = np.array(sorted(i for i in closer if 0 <= i < len(curve) and np.isinf(curve[i])))
    curve[fine] = losses(fine)
    return curve
