"""What softmax layers say about rows, with the methods of the output of the Bayesian head."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor


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
