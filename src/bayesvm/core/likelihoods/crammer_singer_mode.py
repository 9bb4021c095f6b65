r"""The Crammer-Singer hinge at its mode, with the slope shared among rivals that tie (eq. 8.22)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bayesvm.core.likelihoods.point import PointTerms

__all__ = ["CrammerSingerMode"]


@dataclass(frozen=True)
class CrammerSingerMode:
    r"""-2 max(0, 1 + max_{t != y} f_t - f_y), with the maximum rounded by a softmax.

    With :math:`r_t = f_t + [t \ne y]` it is :math:`-2 (\max_t r_t - r_y)`, and
    :math:`\mu \log \sum_t \exp(r_t / \mu)` stands for the maximum.
    """

    separable: ClassVar[bool] = False
    takes_residual: ClassVar[bool] = False

    def at(self, y: Tensor, F: Tensor, k: Tensor) -> Tensor:
        r = _scores(y, F)
        return 2.0 * (r.gather(1, y[:, None]) - r.amax(1, keepdim=True))

    def smoothed(self, y: Tensor, F: Tensor, k: Tensor, width: Tensor) -> PointTerms:
        own = y[:, None]
        r = _scores(y, F)
        log_p = torch.log_softmax(r / width, 1)
        p = log_p.exp()
        slope = (-2.0 * p).scatter_add(1, own, torch.full_like(r[:, :1], 2.0))
        value = 2.0 * width * log_p.gather(1, own)
        return PointTerms(value, slope, 2.0 / width * p, (2.0 / width).sqrt() * p)

    def feasible(self, y: Tensor, slope: Tensor) -> Tensor:
        """Rivals are pushed down, by at most two in all, and the own class up by as much."""
        own = y[:, None]
        down = (-slope).clamp_min(0.0).scatter(1, own, 0.0)
        down = down * (2.0 / down.sum(1, keepdim=True).clamp_min(2.0))
        return (-down).scatter(1, own, down.sum(1, keepdim=True))

    def conjugate(self, y: Tensor, slope: Tensor, k: Tensor) -> Tensor:
        return slope.gather(1, y[:, None])


def _scores(y: Tensor, F: Tensor) -> Tensor:
    """F plus one for every class but the own, shape (N, C)."""
    return (F + 1.0).scatter_add(1, y[:, None], -torch.ones_like(F[:, :1]))
