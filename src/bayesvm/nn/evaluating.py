"""What a network and its head say about rows, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from bayesvm.nn.batches import slices
from bayesvm.nn.calibration import calibrate
from bayesvm.nn.face import Head
from bayesvm.nn.output import HeadOutput

__all__ = ["device_of", "evaluate", "feature_blocks", "precision_scope"]

# Rows at a time where nothing is trained; results do not depend on it.
_BLOCK_ROWS = 512


def device_of(*modules: nn.Module, default: torch.device) -> torch.device:
    """Where the modules are; ``default`` if they hold nothing."""
    for module in modules:
        for tensor in (*module.parameters(), *module.buffers()):
            return tensor.device
    return default


def precision_scope(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """In which the network runs; the head never does."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


def feature_blocks(
    network: nn.Module, X: Tensor, device: torch.device, *, precision: str = "float32", rows: int = 0
) -> Iterator[tuple[slice, Tensor]]:
    """Features of consecutive blocks of rows, in single precision, without gradients.

    The network is as the caller left it: in training mode or not.
    """
    for block in slices(X.shape[0], rows or _BLOCK_ROWS):
        with torch.no_grad(), precision_scope(precision, device):
            features = network(X[block].to(device, non_blocking=True))
        yield block, features.float()


def evaluate(
    network: nn.Module,
    head: nn.Module,
    X: Tensor,
    y: Tensor,
    *,
    precision: str = "float32",
    rows: int = 0,
    temper: bool = False,
) -> tuple[float, float]:
    """Accuracy and log-loss; both modules are in evaluation mode afterwards.

    Parameters
    ----------
    network, head : Module
        As for ``train``.
    X, y : Tensor
        Rows and class indices.
    precision : {"float32", "bf16"}
        Of the network.
    rows : int
        Rows at a time; 0: a fixed number.
    temper : bool
        Whether the head first takes over the temperature and spread that suit these rows best.

    Returns
    -------
    accuracy, log_loss : float
    """
    network.eval()
    head.eval()
    device = device_of(network, head, default=X.device)
    right = torch.zeros((), device=device, dtype=torch.float64)
    loss = torch.zeros((), device=device, dtype=torch.float64)
    with torch.no_grad():
        blocks = feature_blocks(network, X, device, precision=precision, rows=rows)
        outputs = ((y[block].to(device), cast(Head, head)(features)) for block, features in blocks)
        for label, output in _tempered(head, list(outputs)) if temper else outputs:
            p = output.probabilities()
            right += (p.argmax(1) == label).sum()
            own = p.gather(1, label[:, None])[:, 0].double()
            # A probability that underflows costs much, not everything; a NaN stays one.
            loss -= own.clamp_min(torch.finfo(torch.float32).tiny).log().sum()
    return float(right) / len(y), float(loss) / len(y)


def _tempered(head: nn.Module, outputs: list[tuple[Tensor, Any]]) -> list[tuple[Tensor, Any]]:
    """The same outputs at the temperature and spread that suit them best, which the head takes over."""
    labels, mean, variance = (
        torch.cat(parts)
        for parts in zip(*((label, out.mean, out.variance) for label, out in outputs), strict=True)
    )
    temperature, spread = (head.get_buffer(name) for name in ("temperature", "spread"))
    found = calibrate(HeadOutput(mean, variance, temperature), None, labels)
    temperature.fill_(found.temperature)
    spread.fill_(found.spread)
    return [(label, replace(out, temperature=temperature, spread=spread)) for label, out in outputs]
