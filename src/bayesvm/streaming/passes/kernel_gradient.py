"""How the bound changes with the kernel: a sum over rows like any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm.core.covariance import DifferentiableFeatures, Features
from bayesvm.core.feature_gradient import feature_gradient, second_moments
from bayesvm.core.gaussian import Gaussian
from bayesvm.core.kernels.base import Kernel, Params
from bayesvm.core.sites import Statistics
from bayesvm.inference.blocks import Block
from bayesvm.inference.rivals import RivalRule
from bayesvm.streaming.passes.prepare import StandardisedRows

__all__ = ["GradientSums", "KernelGradient"]

_BLOCK_ROWS = 8192


class GradientSums(NamedTuple):
    """Value of the rows, its gradient in the kernel parameters, and the sums that q is made of.

    The divergence of q from the prior does not depend on the kernel, as q is
    that of whitened inducing values.
    """

    value: Tensor
    gradient: Params
    precision: Tensor
    linear: Tensor

    def plus(self, other: GradientSums) -> GradientSums:
        for mine, theirs in zip(
            (self.value, self.precision, self.linear, *self.gradient.values()),
            (other.value, other.precision, other.linear, *other.gradient.values()),
            strict=True,
        ):
            mine.add_(theirs)
        return self


@dataclass(frozen=True)
class KernelGradient:
    """The pass (eq. 5.7).

    Attributes
    ----------
    kernel, params, Z : the covariance and the inducing points
    rule : RivalRule
    q : Gaussian
    number : int
        Of the sweep, for draws.
    """

    kernel: Kernel
    params: Params
    Z: Tensor
    rule: RivalRule
    q: Gaussian
    number: int

    def __call__(self, rows: StandardisedRows) -> GradientSums:
        q = self.q
        J, P = q.m.shape
        leaves = {name: value.detach().clone().requires_grad_() for name, value in self.params.items()}
        gradient = {name: torch.zeros_like(value) for name, value in self.params.items()}
        sums, value, M = Statistics.zeros(J, P, q.m), q.m.new_zeros(()), second_moments(q)
        sites_of = self.rule.under(q, self.number)
        for start in range(0, rows.y.shape[0], _BLOCK_ROWS):
            part = slice(start, start + _BLOCK_ROWS)
            X, y, weight, key = (column[part] for column in rows)
            with torch.enable_grad():
                features = DifferentiableFeatures(self.kernel, leaves, self.Z, X)
            with torch.no_grad():
                block = Block(part, Features(features.A, features.residual), y, weight, key)
                sites = sites_of(block, sums)
                value += torch.dot(weight, sites.value)
                c = weight[:, None]
                adjoints = feature_gradient(features.A, sites.classes, c * sites.W, c * sites.G, q.m, M)
            for name, g in zip(leaves, features.gradient(list(leaves.values()), *adjoints), strict=True):
                if g is not None:
                    gradient[name] += g
        return GradientSums(value, gradient, sums.precision, sums.linear)
