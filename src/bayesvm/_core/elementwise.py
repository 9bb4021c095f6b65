"""Functions of every number of a tensor, in the form that torch computes fastest.

Measured on one core with AVX-512: exp2 takes a half to a third of the time of
exp, and erfc about half of that of ndtr, which has two branches.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LOG2_E = 1.0 / math.log(2.0)


def exp_(x: Tensor, factor: float = 1.0) -> Tensor:
    """exp(factor x) in place; the relative error is |factor x| times that of one rounding."""
    return x.mul_(factor * LOG2_E).exp2_()


def exp_of(x: Tensor, factor: float = 1.0) -> Tensor:
    """exp(factor x), differentiable."""
    return torch.exp2(x * (factor * LOG2_E))


def normal_cdf(z: Tensor) -> Tensor:
    """Phi(z), accurate in relative terms far into the lower tail."""
    return torch.erfc(z * -math.sqrt(0.5)).mul_(0.5)
