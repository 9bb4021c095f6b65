"""Calibration of class probabilities on held-out rows: a temperature, for our head a spread too."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor

_LOWEST, _HIGHEST = 0.02, 50.0


class Output(Protocol):
    """What a head says about rows: a dataclass with a field ``temperature``."""

    def probabilities(self) -> Tensor: ...
    def entropy(self) -> Tensor: ...
    def mutual_information(self) -> Tensor: ...
    def log_variation_ratio(self) -> Tensor: ...


AnyOutput = TypeVar("AnyOutput", bound=Output)


def calibrated(output: AnyOutput, calibration: dict[str, float]) -> AnyOutput:
    """The same output with other values of the fields that make probabilities of it."""
    fields = {name: torch.full_like(getattr(output, name), value) for name, value in calibration.items()}
    return replace(output, **fields)  # type: ignore[type-var]


def calibration_of(output: Output, y: Tensor) -> dict[str, float]:
    """Fields of the output with the smallest log-loss on rows that were not trained on.

    Parameters
    ----------
    output : Output
        Of these rows.
    y : Tensor of shape (N,)
        Their labels.
    """
    from scipy.optimize import minimize_scalar

    from bayesvm.nn import HeadOutput, calibrate

    if isinstance(output, HeadOutput):  # as users of the head do it
        return calibrate(output, None, y)._asdict()

    def loss(log_t: float) -> float:
        at = calibrated(output, {"temperature": math.exp(log_t)})
        p = at.probabilities().gather(1, y[:, None]).double()
        return -float(p.clamp_min(1e-30).log().mean())

    bounds = (math.log(_LOWEST), math.log(_HIGHEST))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    return {"temperature": math.exp(float(found.x))}
