"""Exponentials through powers of two, which torch computes two to three times as fast as exp."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["LOG2_E", "exp_", "exp_of"]

LOG2_E = 1.0 / math.log(2.0)


def exp_(x: Tensor, factor: float = 1.0) -> Tensor:
    """exp(factor x) in place; the relative error is |factor x| times that of one rounding."""
    return x.mul_(factor * LOG2_E).exp2_()


def exp_of(x: Tensor, factor: float = 1.0) -> Tensor:
    """exp(factor x), differentiable."""
    return torch.exp2(x * (factor * LOG2_E))
