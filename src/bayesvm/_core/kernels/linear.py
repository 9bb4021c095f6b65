"""Linear and constant kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bayesvm._compiled.kernels import Array, ConstantTerm, LinearTerm
from bayesvm._core.kernels.base import Params


@dataclass(frozen=True)
class Constant:
    """A random offset, the same for all rows; a factor when multiplied."""

    variance: float = 1.0

    def init(self, X: Tensor) -> Params:
        return {"log_variance": X.new_tensor(math.log(self.variance))}

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return params["log_variance"].exp().expand(X.shape[0], Z.shape[0])

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return params["log_variance"].exp().expand(X.shape[0])

    def relevance(self, params: Params, n_features: int) -> Tensor:
        return params["log_variance"].new_zeros(n_features)

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> ConstantTerm:
        return ConstantTerm.of(params["log_variance"], Z, factor, dtype)


@dataclass(frozen=True)
class Linear:
    r"""Random linear functions with an intercept, :math:`\sigma_b^2 + \sum_d \sigma_d^2 x_d z_d`."""

    ard: bool = True
    variance: float = 1.0

    def init(self, X: Tensor) -> Params:
        D = X.shape[1]
        slope = math.log(self.variance) - math.log(max(D, 1))
        return {
            "log_bias": X.new_tensor(math.log(self.variance)),
            "log_slope": X.new_full((D if self.ard else 1,), slope),
        }

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return params["log_bias"].exp() + (X * params["log_slope"].exp()) @ Z.mT

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return params["log_bias"].exp() + (X.square() * params["log_slope"].exp()).sum(-1)

    def relevance(self, params: Params, n_features: int) -> Tensor:
        return torch.exp(params["log_slope"]).expand(n_features)

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> LinearTerm:
        return LinearTerm.of(params["log_slope"], params["log_bias"], Z, factor, dtype)


@dataclass(frozen=True)
class IsotropicLinear:
    r"""Linear functions whose weights share one prior variance, :math:`\nu^2 (x^\top z + 1)` (eq. 8.25).

    Parameters
    ----------
    intercept : bool
        Whether there is an intercept, with the same variance as the weights.
    variance : float or None
        Starting :math:`\nu^2`; None: such that functions have a variance of one at a typical row.
    """

    intercept: bool = True
    variance: float | None = None

    def init(self, X: Tensor) -> Params:
        size = X.square().sum(-1).mean() + float(self.intercept)
        start = 1.0 / size.clamp_min(1e-12) if self.variance is None else X.new_tensor(self.variance)
        return {"log_variance": start.log()}

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return params["log_variance"].exp() * (X @ Z.mT + float(self.intercept))

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return params["log_variance"].exp() * (X.square().sum(-1) + float(self.intercept))

    def relevance(self, params: Params, n_features: int) -> Tensor:
        return params["log_variance"].exp().expand(n_features)

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> LinearTerm:
        log_variance = params["log_variance"]
        return LinearTerm.of(log_variance, log_variance if self.intercept else None, Z, factor, dtype)
