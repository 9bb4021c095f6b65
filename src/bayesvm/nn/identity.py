"""What makes two training runs the same run."""

from __future__ import annotations

import hashlib
import re
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from bayesvm.nn.recipe import Recipe

__all__ = ["identity_of"]

_SAMPLE_ROWS = 256
# What may change between a run and its continuation.
_FREE = ("compile", "augment", "graph", "settle")


def identity_of(
    network: nn.Module,
    head: nn.Module,
    X: Tensor,
    y: Tensor,
    recipe: Recipe,
    validation: tuple[Tensor, Tensor] | None,
    temper: bool,
) -> dict[str, Any]:
    """Plain values that differ when a checkpoint must not be gone on with.

    More epochs are no other run where the rate does not depend on their
    number. Data are compared by their labels and their first and last rows.
    """
    settings = {f.name: getattr(recipe, f.name) for f in fields(recipe) if f.name not in _FREE}
    if recipe.schedule == "constant":
        del settings["epochs"]
    augment = recipe.augment
    name = None if augment is None else getattr(augment, "__qualname__", type(augment).__name__)
    return {
        **settings,
        "augment": name,
        "rows": len(X),
        "data": _digest(X, y),
        "validation": None if validation is None else _digest(*validation),
        "temper": temper,
        "network": _structure(network),
        "head": _structure(head),
    }


def _digest(X: Tensor, y: Tensor) -> str:
    state = hashlib.blake2b(repr((tuple(X.shape), X.dtype)).encode(), digest_size=8)
    for part in (y, X[:_SAMPLE_ROWS], X[-_SAMPLE_ROWS:]):
        state.update(part.detach().contiguous().cpu().view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def _structure(module: nn.Module) -> str:
    # Addresses of objects in a module's description differ from process to process.
    text = re.sub(r"0x[0-9a-f]+", "", repr(module))
    shapes = [(name, tuple(value.shape)) for name, value in module.named_parameters()]
    return hashlib.blake2b(f"{text}{shapes}".encode(), digest_size=8).hexdigest()
