"""The temperature of class probabilities, from held-out rows (eqs. 6.4, 6.7)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from bayesvm.core.elementwise import exp_
from bayesvm.core.predictive import margins_at_nodes
from bayesvm.nn.errors import HeadError
from bayesvm.nn.head import BayesianSVMHead
from bayesvm.nn.output import HeadOutput

__all__ = ["fit_temperature"]

_SMALLEST, _LARGEST = 0.25, 32.0
_TRIED = 22
_ROUNDS = 3
# Where rows are separable ever larger temperatures look ever better by
# nothing: the smallest one that is as good to this many nats a row is taken.
_INDIFFERENCE = 1e-4
_NODES = 64
_BLOCK_NUMBERS = 2**22


def fit_temperature(head_or_output: nn.Module | HeadOutput, features: Tensor | None, y: Tensor) -> float:
    """The temperature of least log-loss on rows that were not trained on; a head takes it over.

    Parameters
    ----------
    head_or_output : BayesianSVMHead or HeadOutput
    features : Tensor of shape (N, in_features), or None with an output
    y : Tensor of shape (N,)
        Class indices.

    Returns
    -------
    float
    """
    if isinstance(head_or_output, HeadOutput):
        output = head_or_output
    else:
        if features is None:
            raise ValueError("a head needs the features of the held-out rows")
        if not isinstance(head_or_output, BayesianSVMHead):
            name = type(head_or_output).__name__
            raise TypeError(f"fit_temperature needs a BayesianSVMHead or its output, got {name}")
        was_training = head_or_output.training
        with torch.no_grad():
            output = head_or_output.eval()(features)
        head_or_output.train(was_training)
    T = _best(output.mean.detach(), output.variance.detach(), y)
    if isinstance(head_or_output, BayesianSVMHead):
        head_or_output.temperature.fill_(T)
    return T


def _best(F: Tensor, s2: Tensor, y: Tensor) -> float:
    """Search in ever finer grids around the best so far."""
    low, high = ends = math.log(_SMALLEST), math.log(_LARGEST)
    T, best = torch.tensor([]), torch.tensor([])
    for _ in range(_ROUNDS):
        tried = torch.linspace(low, high, _TRIED, dtype=torch.float64)
        T = torch.cat([T, tried])
        best = torch.cat([best, _losses(F, s2, y, tried.exp())])
        width = (high - low) / (_TRIED - 1)
        middle = float(_smallest_good(T, best))
        low, high = max(ends[0], middle - width), min(ends[1], middle + width)
    return float(_smallest_good(T, best).exp())


def _smallest_good(T: Tensor, losses: Tensor) -> Tensor:
    return T[losses <= losses.min() + _INDIFFERENCE].min()


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
