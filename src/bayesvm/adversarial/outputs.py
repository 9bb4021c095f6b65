"""Log probabilities of any output, with gradient, and the average of several outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bayesvm.core.predictive import log_softmax_pairwise, normal_nodes
from bayesvm.nn.output import HeadOutput

__all__ = ["MixtureOutput", "in_double", "log_odds_against", "log_probabilities", "member_log_probabilities"]

_NODES = 128


@dataclass(frozen=True)
class MixtureOutput:
    """Several distributions over classes whose mean is the prediction: an ensemble, or passes with dropout.

    One member is a plain softmax layer.

    Attributes
    ----------
    members : Tensor of shape (N, S, C)
        Log probabilities of each row, member and class.
    """

    members: Tensor

    def log_probabilities(self) -> Tensor:
        """Logarithms of the probabilities, finite where they underflow, (N, C)."""
        return torch.logsumexp(self.members, 1) - math.log(self.members.shape[1])

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

    def variation_ratio(self) -> Tensor:
        """Probability that a label is not the predicted one, (N,)."""
        return self.log_variation_ratio().exp()

    def log_variation_ratio(self) -> Tensor:
        """Its logarithm, by summing the other classes, (N,)."""
        log_p = self.log_probabilities()
        best = log_p.argmax(1)
        return log_odds_against(log_p, best) + log_p.gather(1, best[:, None])[:, 0]

    def margin(self) -> Tensor:
        """Difference of the two largest log probabilities, (N,)."""
        best = self.log_probabilities().topk(2, dim=1).values
        return best[:, 0] - best[:, 1]


def log_probabilities(output: Any) -> Tensor:
    """Logarithms of the class probabilities, with gradient and exact far into the tails, (N, C).

    For the Bayesian head this is the closed form (6.5) at the head's own
    temperature and spread, in double precision: the probabilities of (6.4) come from
    fixed nodes, without gradient.

    Parameters
    ----------
    output : HeadOutput, an output with ``log_probabilities``, or Tensor of shape (N, C)
        A tensor is taken as logits.
    """
    if isinstance(output, HeadOutput):
        T, kappa = output.temperature.double(), output.spread.double()
        return log_softmax_pairwise(output.mean.double(), kappa * output.variance.double(), T)
    if isinstance(output, Tensor):
        return torch.log_softmax(output, 1)
    if hasattr(output, "log_probabilities"):
        found: Tensor = output.log_probabilities()
        return found
    raise TypeError(
        f"cannot tell log probabilities of {type(output).__name__}; give a HeadOutput, logits of shape "
        "(rows, classes), or an object with a method log_probabilities()"
    )


def log_odds_against(log_p: Tensor, y: Tensor) -> Tensor:
    r"""log((1 - p_y) / p_y) of each row, (N,): what an attack raises.

    Its gradient is that of :math:`-\log p_y` divided by :math:`1 - p_y`: the
    same direction, but it does not vanish where the row is certain.
    """
    if bool(((y < 0) | (y >= log_p.shape[1])).any()):  # on a GPU gather would end the process
        raise ValueError(f"y has class {int(y.max())}, but the model has classes 0 to {log_p.shape[1] - 1}")
    own = y[:, None]
    return torch.logsumexp(log_p.scatter(1, own, -torch.inf), 1) - log_p.gather(1, own)[:, 0]


def member_log_probabilities(output: Any) -> tuple[Tensor, Tensor]:
    """Log probabilities of the distributions that an output averages, (N, S, C), and their weights, (S,).

    Of the Bayesian head these are the softmax of the latents at fixed nodes. With gradient.
    """
    if isinstance(output, HeadOutput):
        z = normal_nodes(_NODES, output.mean.shape[1]).to(output.mean)
        f = output.mean[:, None] + (output.spread * output.variance).sqrt()[:, None] * z
        members = torch.log_softmax(output.temperature * f, 2)
    elif isinstance(output, MixtureOutput):
        members = output.members
    elif hasattr(output, "logits") and hasattr(output, "temperature"):
        members = torch.log_softmax(output.temperature * output.logits, 2)
    else:
        members = log_probabilities(output)[:, None]
    S = members.shape[1]
    return members, torch.full((S,), 1.0 / S, dtype=members.dtype, device=members.device)


def in_double(output: Any) -> Any:
    """The same output without gradient and in double precision: scores then do not tie by rounding."""
    if isinstance(output, Tensor):
        return output.detach().double()
    if not is_dataclass(output) or isinstance(output, type):
        raise TypeError(f"an output must be a dataclass of tensors, got {type(output).__name__}")
    values = {f.name: getattr(output, f.name) for f in fields(output)}
    tensors = {k: v.detach().double() for k, v in values.items() if isinstance(v, Tensor)}
    return replace(output, **tensors)
