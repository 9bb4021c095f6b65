"""Temperature and spread of a head's class probabilities, from held-out rows (eqs. 6.4, 9.10)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from bayesvm._core.calibration import fit_held_out
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
    found = fit_held_out(F, s2, y)
    return Calibration(found.temperature, found.spread)
