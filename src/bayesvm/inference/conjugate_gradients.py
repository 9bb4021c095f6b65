"""Conjugate gradients, for systems too large or too close to singular to factorise."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["conjugate_gradients"]

Map = Callable[[Tensor], Tensor]


def conjugate_gradients(product: Map, precondition: Map, b: Tensor, steps: int, slack: float) -> Tensor:
    """Solve product(x) = b for a positive semi-definite map, from x = 0.

    Ends when the preconditioned residual has fallen to ``slack`` times the
    first one, after ``steps`` steps, or where the map does not bend any more.
    """
    x, left = torch.zeros_like(b), b
    p = z = precondition(left)
    size = first = float((left * z).sum())
    for _ in range(steps):
        if not size > slack**2 * first:
            break
        image = product(p)
        bend = float((p * image).sum())
        if not bend > 0.0:
            break
        x, left = x + (size / bend) * p, left - (size / bend) * image
        z = precondition(left)
        new = float((left * z).sum())
        p = z + (new / size) * p
        size = new
    return x
