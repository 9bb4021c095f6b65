"""What trained models say about images: features and outputs of many rows, in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from bayesvm_studies.images.models import Model
from bayesvm_studies.images.outputs import SoftmaxOutput, joined

# Passes with dropout over which predictions are averaged.
PASSES = 32
_ROWS = 2000


@contextmanager
def evaluated(model: Model) -> Iterator[None]:
    """Set a model to evaluation without gradients, and back to what it was."""
    before = [(module, module.training) for module in (model.network, model.head)]
    model.train(False)
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in before:
            module.train(training)


@contextmanager
def _dropping(model: Model) -> Iterator[None]:
    """Evaluation in which dropout stays on; batch normalisation uses its running statistics."""
    try:
        for module in model.dropouts:
            module.train()
        yield
    finally:
        for module in model.dropouts:
            module.eval()


def features_of(model: Model, X: Tensor, rows: int = _ROWS) -> Tensor:
    """Features of images in single precision, (N, D); the network computes as it was trained."""
    bf16 = model.arguments.get("recipe", {}).get("precision") == "bf16"
    parts = []
    for block in X.split(rows):
        with torch.autocast(X.device.type, dtype=torch.bfloat16, enabled=bf16):
            parts.append(model.network(block))
    return torch.cat(parts).float()


def output_of(model: Model, X: Tensor, rows: int = _ROWS) -> Any:
    """The output of the head for images; with dropout over several passes.

    Parameters
    ----------
    model : Model
        Inside :func:`evaluated`.
    X : Tensor of shape (N, channels, height, width)
    rows : int
        At a time.
    """
    if not model.drops:
        return joined([model.head(block) for block in features_of(model, X, rows).split(rows)])
    device = X.device
    with _dropping(model), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)  # always the same passes
        outputs = [model.head(features_of(model, X, rows)) for _ in range(PASSES)]
    return SoftmaxOutput(torch.cat([o.logits for o in outputs], 1), outputs[0].temperature)
