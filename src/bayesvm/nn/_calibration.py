"""Temperature and spread of class probabilities, from held-out rows (eqs. 6.4, 9.10)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bayesvm._core.linalg import exp_
from bayesvm._core.predictive import margins_at_nodes
from bayesvm.nn._output import HeadOutput
from bayesvm.nn._recipe import HeadError

_SMALLEST, _LARGEST = 0.25, 32.0
# Temperatures tried in a round, everywhere and near a known one, and rounds.
_TRIED, _TRIED_NEAR = 22, 8
_ROUNDS = 3
# Where rows are separable ever larger temperatures look ever better by
# nothing: the smallest one that is as good to this many nats a row is taken.
_INDIFFERENCE = 1e-4
# Spreads are powers of two; every second one is tried, then the neighbours of
# the best. The loss may rise before it falls, so none is left out.
_EXPONENTS = range(-4, 9, 2)
# From one of these to the next the best temperature moves by less than this factor.
_NEAR = math.log(4.0)
# Nats that a spread must gain for each unit of its logarithm, as everywhere (eq. 6.7).
_NATS_PER_LOG_SPREAD = 5.0
_NODES = 64
_BLOCK_NUMBERS = 2**22


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


class _Fit(NamedTuple):
    """The best temperature at a spread and what it costs, in nats over all rows."""

    log_T: float
    cost: float


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
        output = head_or_output
        return _best(output.mean.detach(), output.variance.detach(), y)
    head = head_or_output
    if features is None:
        raise ValueError("a head needs the features of the held-out rows")
    if not {"temperature", "spread"} <= {name for name, _ in head.named_buffers()}:
        raise TypeError(f"calibrate needs a BayesianSVMHead or its output, got {type(head).__name__}")
    was_training = head.training
    with torch.no_grad():
        output = head.eval()(features)
    head.train(was_training)
    return take_over(head, _best(output.mean, output.variance, y))


def take_over(head: nn.Module, found: Calibration) -> Calibration:
    """Let a head's class probabilities follow a calibration, which is returned."""
    for name, value in found._asdict().items():
        head.get_buffer(name).fill_(value)
    return found


def _best(F: Tensor, s2: Tensor, y: Tensor) -> Calibration:
    """Every second power of two as a spread, outwards from one, then the neighbours of the best."""
    ends = math.log(_SMALLEST), math.log(_LARGEST)
    fits = {0: _fit(F, s2, y, ends, _TRIED)}

    def add(exponent: int, log_T: float) -> None:
        near = max(ends[0], log_T - _NEAR), min(ends[1], log_T + _NEAR)
        fit = _fit(F, 2.0**exponent * s2, y, near, _TRIED_NEAR)
        prior = _NATS_PER_LOG_SPREAD * abs(exponent) * math.log(2.0)
        fits[exponent] = fit._replace(cost=fit.cost + prior)

    for exponent in sorted(set(_EXPONENTS) - {0}, key=abs):
        add(exponent, fits[exponent - int(math.copysign(2, exponent))].log_T)
    middle = min(fits, key=lambda i: fits[i].cost)
    for exponent in (middle - 1, middle + 1):
        add(exponent, fits[middle].log_T)
    best = min(fits, key=lambda i: fits[i].cost)
    return Calibration(math.exp(fits[best].log_T), 2.0**best)


def _fit(F: Tensor, s2: Tensor, y: Tensor, ends: tuple[float, float], n_tried: int) -> _Fit:
    """Search for a temperature in ever finer grids around the best so far."""
    low, high = ends
    log_T, losses = torch.tensor([]), torch.tensor([])
    for _ in range(_ROUNDS):
        tried = torch.linspace(low, high, n_tried, dtype=torch.float64)
        log_T = torch.cat([log_T, tried])
        losses = torch.cat([losses, _losses(F, s2, y, tried.exp())])
        width = (high - low) / (n_tried - 1)
        middle = float(log_T[losses <= losses.min() + _INDIFFERENCE].min())
        low, high = max(ends[0], middle - width), min(ends[1], middle + width)
    return _Fit(middle, float(losses.min()) * F.shape[0])


def _losses(F: Tensor, s2: Tensor, y: Tensor, temperatures: Tensor) -> Tensor:
    """Mean log-loss at each temperature."""
    size = max(1, _BLOCK_NUMBERS // (_NODES * F.shape[1]))
    total = torch.zeros_like(temperatures)
    for start in range(0, F.shape[0], size):
        rows = slice(start, start + size)
        behind, weight = margins_at_nodes(F[rows], s2[rows], y[rows], _NODES)
        for i, T in enumerate(temperatures.tolist()):
            p = exp_(behind.clone(), T).sum(0).reciprocal() @ weight
            total[i] -= float(p.clamp_min(torch.finfo(p.dtype).tiny).log().sum())
    if not bool(torch.isfinite(total).all()):
        raise HeadError("the latents of the held-out rows are not finite: check the inputs and head.check()")
    return total / F.shape[0]
