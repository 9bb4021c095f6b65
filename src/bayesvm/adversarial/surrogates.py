"""Scores with gradients, for an attacker who knows the detector."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bayesvm.adversarial.model import Rows
from bayesvm.adversarial.outputs import log_probabilities
from bayesvm.adversarial.scores import SCORES
from bayesvm.nn.output import HeadOutput

__all__ = ["SURROGATES"]


def _standardised_leads(output: HeadOutput) -> Tensor:
    """Lead of the largest mean over each other class, in standard deviations of the difference."""
    F, s2 = output.mean.double(), output.variance.double()
    best = F.detach().argmax(1, keepdim=True)
    z = (F.gather(1, best) - F) * (s2.gather(1, best) + s2).rsqrt()
    return z.scatter(1, best, torch.inf)


def log_variation_ratio(rows: Rows) -> Tensor:
    r"""Bound on the log variation ratio, :math:`\log \sum_{j \ne c} \Phi(-z_j)`; exact for softmax layers.

    z_j is the standardised lead over class j: of two classes one is larger
    with probability Phi(-z_j), so the sum bounds the ratio and its logarithm
    follows (6.3) far into the tail.
    """
    if not isinstance(rows.output, HeadOutput):
        found: Tensor = rows.output.log_variation_ratio()
        return found
    return torch.logsumexp(torch.special.log_ndtr(-_standardised_leads(rows.output)), 1)


def variation_ratio(rows: Rows) -> Tensor:
    """The same as its logarithm: a gradient that vanishes would help nobody but the defender."""
    return log_variation_ratio(rows)


def standardised_margin(rows: Rows) -> Tensor:
    """The score itself, with gradient: minus the lead over the next largest mean."""
    if not isinstance(rows.output, HeadOutput):
        found: Tensor = -rows.output.margin()
        return found
    best, classes = rows.output.mean.double().topk(2, dim=1)
    s2 = rows.output.variance.double().gather(1, classes).sum(1)
    return (best[:, 1] - best[:, 0]) * s2.rsqrt()


def entropy(rows: Rows) -> Tensor:
    """Entropy of the closed form of the class probabilities (eq. 6.5)."""
    log_p = log_probabilities(rows.output)
    return -(log_p.exp() * log_p).sum(1)


# The others are differentiable as they are.
SURROGATES: dict[str, Callable[[Rows], Tensor | None]] = {
    **SCORES,
    "variation_ratio": variation_ratio,
    "log_variation_ratio": log_variation_ratio,
    "standardised_margin": standardised_margin,
    "entropy": entropy,
}
