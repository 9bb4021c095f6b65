"""The temperature of class probabilities, fitted on held-out rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor

__all__ = ["Output", "best_temperature", "tempered"]

_LOWEST, _HIGHEST = 0.02, 50.0


class Output(Protocol):
    """What a head says about rows: a dataclass with a field ``temperature``."""

    def probabilities(self) -> Tensor: ...
    def entropy(self) -> Tensor: ...
    def mutual_information(self) -> Tensor: ...
    def log_variation_ratio(self) -> Tensor: ...


AnyOutput = TypeVar("AnyOutput", bound=Output)


def tempered(output: AnyOutput, temperature: float) -> AnyOutput:
    """The same output at another temperature."""
    old: Tensor = output.temperature  # type: ignore[attr-defined]
    return replace(output, temperature=torch.full_like(old, temperature))  # type: ignore[type-var]


def best_temperature(output: Output, y: Tensor) -> float:
    """The temperature with the smallest log-loss on rows that were not trained on.

    Parameters
    ----------
    output : Output
        Of these rows.
    y : Tensor of shape (N,)
        Their labels.
    """
    from scipy.optimize import minimize_scalar

    from bayesvm.nn import HeadOutput, fit_temperature

    if isinstance(output, HeadOutput):  # as users of the head do it
        return fit_temperature(output, None, y)

    def loss(log_t: float) -> float:
        p = tempered(output, math.exp(log_t)).probabilities().gather(1, y[:, None]).double()
        return -float(p.clamp_min(1e-30).log().mean())

    bounds = (math.log(_LOWEST), math.log(_HIGHEST))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    return math.exp(float(found.x))
