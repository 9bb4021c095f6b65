"""A softmax layer with the interface of the Bayesian head, its output, and calibration of both."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class SoftmaxOutput:
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

    def _members(self) -> Tensor:
        """Log probabilities of each member, (N, S, C)."""
        return torch.log_softmax(self.temperature * self.logits, 2)

    def log_probabilities(self) -> Tensor:
        """Logarithms of the probabilities, finite where they underflow, (N, C)."""
        return torch.logsumexp(self._members(), 1) - math.log(self.logits.shape[1])

    def probabilities(self) -> Tensor:
        """Mean of the members' probabilities, (N, C)."""
        return self.log_probabilities().exp()

    def predict(self) -> Tensor:
        """The most probable class, (N,)."""
        return self.log_probabilities().argmax(1)

    def entropy(self) -> Tensor:
        """Entropy of the probabilities in nats, (N,)."""
        log_p = self.log_probabilities()
        return -(log_p.exp() * log_p).sum(1)

    def mutual_information(self) -> Tensor:
        """Entropy of the mean minus the mean entropy: zero where there is one member, (N,)."""
        members = self._members()
        within = -(members.exp() * members).sum(2).mean(1)
        return (self.entropy() - within).clamp_min(0.0)

    def variation_ratio(self) -> Tensor:
        """Probability that a label is not the predicted one, (N,)."""
        return self.log_variation_ratio().exp()

    def log_variation_ratio(self) -> Tensor:
        """Its logarithm, by summing the other classes: ordered where the ratio itself underflows, (N,)."""
        log_p = self.log_probabilities()
        others = log_p.scatter(1, log_p.argmax(1, keepdim=True), -torch.inf)
        return torch.logsumexp(others, 1)

    def margin(self) -> Tensor:
        """Difference of the two largest log probabilities, (N,)."""
        best = self.log_probabilities().topk(2, dim=1).values
        return best[:, 0] - best[:, 1]


def joined(outputs: list[Any]) -> Any:
    """Outputs of consecutive rows as one: every field that has rows is put together."""
    first = outputs[0]
    if len(outputs) == 1:
        return first
    rows = [f.name for f in fields(first) if getattr(first, f.name).ndim > 0]
    return replace(first, **{name: torch.cat([getattr(o, name) for o in outputs]) for name in rows})


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
