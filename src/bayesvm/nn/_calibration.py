"""Temperature and spread of a head's class probabilities, from held-out rows (eqs. 6.4, 9.10)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bayesvm._core.calibration import NATS_PER_LOG_SPREAD, loss_curve, smallest_good
from bayesvm._core.predictive import expected_softmax
from bayesvm.nn._output import HeadOutput
from bayesvm.nn._recipe import HeadError


class Calibration(NamedTuple):
    """How latents become class probabilities.

    Attributes
    ----------
    temperature : float
        Of the softmax.
    spread : float
        Latent variances are multiplied by it.
    """

    temperature: float
    spread: float


def calibrate(head_or_output: nn.Module | HeadOutput, features: Tensor | None, y: Tensor) -> Calibration:
    r"""Temperature and spread of least log-loss on rows that were not trained on (eq. 9.10).

    A head takes them over: its class probabilities and their entropies
    follow. Latents and variation ratios stay as they are.

    Parameters
    ----------
    head_or_output : BayesianSVMHead or HeadOutput
    features : Tensor of shape (N, in_features), or None with an output
    y : Tensor of shape (N,)
        Class indices.

    Returns
    -------
    Calibration
    """
    if isinstance(head_or_output, HeadOutput):
        return _fitted(head_or_output, y)
    head = head_or_output
    if features is None:
        raise ValueError("a head needs the features of the held-out rows")
    if not {"temperature", "spread"} <= {name for name, _ in head.named_buffers()}:
        raise TypeError(f"calibrate needs a BayesianSVMHead or its output, got {type(head).__name__}")
    was_training = head.training
    with torch.no_grad():
        output = head.eval()(features)
    head.train(was_training)
    return take_over(head, _fitted(output, y))


def take_over(head: nn.Module, found: Calibration) -> Calibration:
    """Apply a calibration to a head's class probabilities, and return it."""
    for name, value in found._asdict().items():
        head.get_buffer(name).fill_(value)
    return found


def _fitted(output: HeadOutput, y: Tensor) -> Calibration:
    F, s2 = output.mean.detach(), output.variance.detach()
    if not bool(torch.isfinite(F).all() & torch.isfinite(s2).all()):
        raise HeadError("the latents of the held-out rows are not finite: check the inputs and head.check()")
    return fit_held_out(F, s2, y)


# --- The search: ever finer grids.


_SMALLEST, _LARGEST = 0.25, 32.0
# Temperatures tried in a round, everywhere and near a known one, and rounds.
_TRIED, _TRIED_NEAR = 22, 8
_ROUNDS = 3
# The slack of held-out rows, in nats a row.
_HELD_OUT_INDIFFERENCE = 1e-4
_HELD_OUT_NODES = 64
# Spreads are powers of two; every second one is tried, then the neighbours of
# the best. The loss may rise before it falls, so none is left out.
_EXPONENTS = range(-4, 9, 2)
# From one of these to the next the best temperature moves by less than this factor.
_NEAR = math.log(4.0)
# How far, in logarithms, the nodes may be off.
_OFF = 0.2


class _Found(NamedTuple):
    """The best temperature at a spread and what it costs, in nats over all rows."""

    log_T: float
    cost: float


def fit_held_out(F: Tensor, s2: Tensor, y: Tensor) -> Calibration:
    """Temperature and spread of least log-loss on held-out rows (eq. 9.10).

    Every second power of two as a spread, outwards from one, then the neighbours of the best.
    """
    ends = math.log(_SMALLEST), math.log(_LARGEST)
    found = {0: _best_temperature(F, s2, y, ends, _TRIED)}

    def add(exponent: int, log_T: float) -> None:
        near = max(ends[0], log_T - _NEAR), min(ends[1], log_T + _NEAR)
        best = _best_temperature(F, 2.0**exponent * s2, y, near, _TRIED_NEAR)
        prior = NATS_PER_LOG_SPREAD * abs(exponent) * math.log(2.0)
        found[exponent] = best._replace(cost=best.cost + prior)

    for exponent in sorted(set(_EXPONENTS) - {0}, key=abs):
        add(exponent, found[exponent - int(math.copysign(2, exponent))].log_T)
    middle = min(found, key=lambda i: found[i].cost)
    for exponent in (middle - 1, middle + 1):
        add(exponent, found[middle].log_T)
    best = min(found, key=lambda i: found[i].cost)
    log_T = _refined(F, 2.0**best * s2, y, found[best].log_T)
    return Calibration(math.exp(log_T), 2.0**best)


def _refined(F: Tensor, s2: Tensor, y: Tensor, log_T: float) -> float:
    """The best temperature near one that fixed nodes found, by the integral that predictions use.

    It costs ten times as much as the nodes, and they are a tenth of a temperature off.
    """
    low, high = max(math.log(_SMALLEST), log_T - _OFF), min(math.log(_LARGEST), log_T + _OFF)
    tried = torch.linspace(low, high, _TRIED_NEAR + 1, dtype=torch.float64)
    least = torch.finfo(F.dtype).tiny
    own = [expected_softmax(F, s2, math.exp(t)).gather(1, y[:, None]) for t in tried.tolist()]
    losses = torch.stack([-p.clamp_min(least).log().sum(dtype=torch.float64) for p in own]).cpu()
    return float(tried[smallest_good(losses, _HELD_OUT_INDIFFERENCE * F.shape[0])])


def _best_temperature(F: Tensor, s2: Tensor, y: Tensor, ends: tuple[float, float], n_tried: int) -> _Found:
    """Search for a temperature in ever finer grids around the best so far."""
    low, high = ends
    slack = _HELD_OUT_INDIFFERENCE * F.shape[0]
    ones = F.new_ones(F.shape[0])
    log_T, losses = torch.tensor([]), torch.tensor([])
    for _ in range(_ROUNDS):
        tried = torch.linspace(low, high, n_tried, dtype=torch.float64)
        log_T = torch.cat([log_T, tried])
        losses = torch.cat([losses, loss_curve(F, s2, y, ones, tried.exp(), n_nodes=_HELD_OUT_NODES)])
        width = (high - low) / (n_tried - 1)
        middle = float(log_T[losses <= losses.min() + slack].min())
        low, high = max(ends[0], middle - width), min(ends[1], middle + width)
    return _Found(middle, float(losses.min()))
