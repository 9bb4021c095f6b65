"""Kernels of the scaled distance r = |(x - z) / l|: RBF and two Matérn."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from bayesvm.core.elementwise import exp_, exp_of
from bayesvm.core.kernels.base import Params

__all__ = ["RBF", "Matern32", "Matern52"]


def _squared_distance(X: Tensor, Z: Tensor) -> Tensor:
    """Squared distances of all pairs of rows through one matrix product."""
    cross = torch.addmm(Z.square().sum(-1), X, Z.mT, alpha=-2.0)
    x2 = X.square().sum(-1, keepdim=True)
    if cross.requires_grad:
        return (cross + x2).clamp_min(0.0)
    return cross.add_(x2).clamp_min_(0.0)


@dataclass(frozen=True)
class _Stationary(ABC):
    """Variance and length scales; subclasses say how covariance falls with distance.

    Parameters
    ----------
    ard : bool
        One length scale per feature (automatic relevance determination).
    variance : float
        Starting variance.
    length_scale : float
        Starting length scale in units of sqrt(D) standard deviations, about
        the distance of two typical rows.
    """

    ard: bool = True
    variance: float = 1.0
    length_scale: float = 1.0

    def init(self, X: Tensor) -> Params:
        D = X.shape[1]
        start = math.log(self.length_scale) + 0.5 * math.log(max(D, 1))
        return {
            "log_variance": X.new_tensor(math.log(self.variance)),
            "log_length_scale": X.new_full((D if self.ard else 1,), start),
        }

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        scale = torch.exp(-params["log_length_scale"])
        k = self.profile(_squared_distance(X * scale, Z * scale))
        variance = params["log_variance"].exp()
        return variance * k if k.requires_grad or variance.requires_grad else k.mul_(variance)

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return params["log_variance"].exp().expand(X.shape[0])

    def relevance(self, params: Params, n_features: int) -> Tensor:
        slope = params["log_variance"].exp() * self._curvature
        return (slope * torch.exp(-2.0 * params["log_length_scale"])).expand(n_features)

    # -k''(0) for unit variance and length scale: the variance of the slope.
    _curvature = 1.0

    @abstractmethod
    def profile(self, r2: Tensor) -> Tensor:
        """Correlation as a function of the squared scaled distance."""


@dataclass(frozen=True)
class RBF(_Stationary):
    r"""Squared exponential, :math:`\sigma^2 \exp(-r^2/2)`."""

    def profile(self, r2: Tensor) -> Tensor:
        return exp_of(r2, -0.5) if r2.requires_grad else exp_(r2, -0.5)


def _safe_sqrt(r2: Tensor) -> Tensor:
    """Square root whose gradient is finite at zero distance."""
    return (r2 + 1e-24).sqrt()


@dataclass(frozen=True)
class Matern32(_Stationary):
    r"""Once differentiable, :math:`\sigma^2 (1 + \sqrt3 r) \exp(-\sqrt3 r)`."""

    _curvature = 3.0

    def profile(self, r2: Tensor) -> Tensor:
        r = _safe_sqrt(3.0 * r2)
        return (1.0 + r) * exp_of(r, -1.0)


@dataclass(frozen=True)
class Matern52(_Stationary):
    r"""Twice differentiable, :math:`\sigma^2 (1 + \sqrt5 r + 5 r^2/3) \exp(-\sqrt5 r)`."""

    _curvature = 5.0 / 3.0

    def profile(self, r2: Tensor) -> Tensor:
        r = _safe_sqrt(5.0 * r2)
        return (1.0 + r + r * r / 3.0) * exp_of(r, -1.0)
