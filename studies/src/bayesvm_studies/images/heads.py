"""A softmax layer with the interface of the Bayesian head, its output, and calibration of both."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from bayesvm.adversarial._model import AveragedOutput


@dataclass(frozen=True)
class SoftmaxOutput(AveragedOutput):
    """Logits of one softmax layer, or of several whose probabilities are averaged.

    Several are the members of an ensemble, passes with dropout, or draws of
    a Laplace approximation.

    Attributes
    ----------
    logits : Tensor of shape (N, S, C)
        Of each row, member and class.
    temperature : Tensor of shape ()
        Logits are multiplied by it: one is a plain softmax.
    """

    logits: Tensor
    temperature: Tensor

    def member_log_probabilities(self) -> Tensor:
        """Log probabilities of each row, member and class, (N, S, C)."""
        return torch.log_softmax(self.temperature * self.logits, 2)


class SoftmaxHead(nn.Module):
    """A linear layer and cross-entropy, so that loops need not care which head they train.

    Parameters
    ----------
    in_features, n_classes : int
    dropout : float
        Share of the features that is dropped in training; predictions that
        average over passes drop them too (Gal and Ghahramani, 2016).
    """

    temperature: Tensor

    def __init__(self, in_features: int, n_classes: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout: nn.Module = nn.Dropout(dropout) if dropout > 0.0 else nn.Identity()
        self.linear = nn.Linear(in_features, n_classes)
        self.register_buffer("temperature", torch.ones(()))

    def initialise(self, features: Tensor, y: Tensor | None = None) -> None:
        """Nothing to do: a linear layer needs no data."""

    def check(self) -> None:
        """Nothing to report."""

    def forward(self, features: Tensor) -> SoftmaxOutput:
        """The output for some rows."""
        return SoftmaxOutput(self.linear(self.dropout(features))[:, None], self.temperature)

    def loss(self, features: Tensor, y: Tensor, n_total: int, *, step: bool = True) -> Tensor:
        """Mean cross-entropy."""
        return functional.cross_entropy(self.linear(self.dropout(features)), y)

    def kl(self) -> Tensor:
        """Zero: there is no posterior."""
        return torch.zeros_like(self.temperature)


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
