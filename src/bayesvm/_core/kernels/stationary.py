"""Kernels of the scaled distance r = |(x - z) / l|: RBF, two Matérn, and a base class for others."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bayesvm._compiled.kernels import Array, DistanceTerm
from bayesvm._core.kernels.base import Params
from bayesvm._core.linalg import exp_, exp_of

# The derivatives below are in closed form because calls dominate small problems:
# autograd makes three times as many for the same arithmetic.


def _distances(X: Tensor, Z: Tensor) -> Tensor:
    """Squared distances of all pairs of rows, through one matrix product."""
    r2 = torch.addmm(torch.linalg.vecdot(Z, Z), X, Z.mT, alpha=-2.0)
    return r2.add_(torch.linalg.vecdot(X, X)[:, None]).clamp_min_(0.0)


def _through_distances(
    g: Tensor, X: Tensor, Z: Tensor, inverse: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Derivatives for rows, inducing points and log length scales.

    ``g`` is twice the derivative for the squared distances of scaled rows X
    and Z, and ``inverse`` what they were scaled by.
    """
    row, column, cross = g.sum(1), g.sum(0), g.mT @ X
    for_X = for_Z = for_scale = None
    if needed[0]:
        for_X = torch.addmm(X * row[:, None], g, Z, alpha=-1.0).mul_(inverse)
    if needed[1]:
        for_Z = torch.addcmul(-cross, Z, column[:, None]).mul_(inverse)
    if needed[2]:  # -sum g (x - z)^2, one feature at a time
        for_scale = torch.addcmul(cross, Z, column[:, None], value=-0.5).mul_(Z).sum(0).mul_(2.0)
        for_scale.addmv_(X.square().mT, row, alpha=-1.0)
        for_scale = for_scale if inverse.shape[0] == X.shape[1] else for_scale.sum(0, keepdim=True)
    return for_X, for_Z, for_scale


class _ScaledDistance(torch.autograd.Function):
    """Squared distances of all pairs of rows in units of length scales."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, Z: Tensor, log_length_scale: Tensor) -> Tensor:
        inverse = torch.exp(-log_length_scale)
        X, Z = X * inverse, Z * inverse
        ctx.save_for_backward(X, Z, inverse)
        return _distances(X, Z)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        X, Z, inverse = ctx.saved_tensors
        return _through_distances(2.0 * grads[0], X, Z, inverse, ctx.needs_input_grad)


class _SquaredExponential(torch.autograd.Function):
    """Covariances of the RBF kernel."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, Z: Tensor, log_length_scale: Tensor, log_variance: Tensor) -> Tensor:
        inverse = torch.exp(-log_length_scale)
        X, Z = X * inverse, Z * inverse
        k = exp_(_distances(X, Z).sub_(2.0 * log_variance), -0.5)
        ctx.save_for_backward(k, X, Z, inverse)
        return k

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        k, X, Z, inverse = ctx.saved_tensors
        g = grads[0] * k
        return *_through_distances(-g, X, Z, inverse, ctx.needs_input_grad), g.sum()


@dataclass(frozen=True)
class Stationary(ABC):
    """Variance and length scales; a subclass defines in ``profile`` how covariance falls with distance.

    Further parameters of the profile are entries that ``init`` of the subclass adds.

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

    # A length scale multiplies all covariances, for any values of the other columns.
    deviation_scale = 0.03

    def init(self, X: Tensor) -> Params:
        D = X.shape[1]
        start = math.log(self.length_scale) + 0.5 * math.log(max(D, 1))
        return {
            "log_variance": X.new_tensor(math.log(self.variance)),
            "log_length_scale": X.new_full((D if self.ard else 1,), start),
        }

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        r2: Tensor = _ScaledDistance.apply(X, Z, params["log_length_scale"])  # type: ignore[no-untyped-call]
        k = self.profile(r2, params)
        variance = params["log_variance"].exp()
        return variance * k if k.requires_grad or variance.requires_grad else k.mul_(variance)

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return params["log_variance"].exp().expand(X.shape[0])

    def relevance(self, params: Params, n_features: int) -> Tensor:
        # The variance of the slope is -k''(r) at zero, minus twice the derivative for the square of r.
        with torch.enable_grad():
            zero = params["log_variance"].new_zeros(1, 1).requires_grad_()
            (slope,) = torch.autograd.grad(self.profile(zero.clone(), params).sum(), zero)
        variance = params["log_variance"].exp() * -2.0 * slope[0, 0]
        return (variance * torch.exp(-2.0 * params["log_length_scale"])).expand(n_features)

    @abstractmethod
    def profile(self, r2: Tensor, params: Params) -> Tensor:
        """Correlation as a function of the squared scaled distance; may overwrite that.

        Parameters
        ----------
        r2 : Tensor of shape (N, P)
        params : dict of str to Tensor
            All parameters; variance and length scales have been or will be applied.
        """


@dataclass(frozen=True)
class RBF(Stationary):
    r"""Squared exponential, :math:`\sigma^2 \exp(-r^2/2)`."""

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        log_length_scale, log_variance = params["log_length_scale"], params["log_variance"]
        k: Tensor = _SquaredExponential.apply(X, Z, log_length_scale, log_variance)  # type: ignore[no-untyped-call]
        return k

    def profile(self, r2: Tensor, params: Params) -> Tensor:
        return exp_of(r2, -0.5) if r2.requires_grad else exp_(r2, -0.5)

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> DistanceTerm:
        return DistanceTerm.of("rbf", params, Z, factor, dtype)


class _ExponentialOfDistance(torch.autograd.Function):
    """(1 + r) exp(-r), or with ``twice`` (1 + r + r^2/3) exp(-r), of the squares of r.

    The derivatives for the square are short and smooth. Through the square root
    they were a difference of equal numbers divided by r: in single precision
    noise, where an inducing point is a row.
    """

    @staticmethod
    def forward(ctx: Any, r2: Tensor, twice: bool) -> Tensor:
        r = r2.sqrt()
        falling = exp_(-r)
        k = torch.addcmul(falling, r, falling)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(k * (-1.0 / 6.0) if twice else -0.5 * falling)
        return k.addcmul_(r2, falling, value=1.0 / 3.0) if twice else k

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return grads[0] * slope, None


@dataclass(frozen=True)
class Matern32(Stationary):
    r"""Once differentiable, :math:`\sigma^2 (1 + \sqrt3 r) \exp(-\sqrt3 r)`."""

    def profile(self, r2: Tensor, params: Params) -> Tensor:
        k: Tensor = _ExponentialOfDistance.apply(3.0 * r2, False)  # type: ignore[no-untyped-call]
        return k

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> DistanceTerm:
        return DistanceTerm.of("matern32", params, Z, factor, dtype)


@dataclass(frozen=True)
class Matern52(Stationary):
    r"""Twice differentiable, :math:`\sigma^2 (1 + \sqrt5 r + 5 r^2/3) \exp(-\sqrt5 r)`."""

    def profile(self, r2: Tensor, params: Params) -> Tensor:
        k: Tensor = _ExponentialOfDistance.apply(5.0 * r2, True)  # type: ignore[no-untyped-call]
        return k

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> DistanceTerm:
        return DistanceTerm.of("matern52", params, Z, factor, dtype)
