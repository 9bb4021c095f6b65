"""Refining the kernel by gradients over all rows, after it was learned on a sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bayesvm._core import gaussian
from bayesvm._core.elbo import elbo
from bayesvm._core.features import DifferentiableFeatures, Features, feature_gradient, second_moments
from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.linalg import NotPositiveDefiniteError
from bayesvm._core.sites import Statistics
from bayesvm._fit.engine import Chunk, Engine
from bayesvm._fit.passes import InParts
from bayesvm._fit.prepare import PART_ROWS, Standardise, StandardisedRows, kept_bytes
from bayesvm._inference.adam import Adam
from bayesvm._inference.blocks import Block, TrainingRows
from bayesvm._inference.coordinate import base_gaussian
from bayesvm._inference.rivals import RivalRule

# --- How the bound changes with the kernel: a sum over rows like any other.


_BLOCK_ROWS = 8192


class GradientSums(NamedTuple):
    """Value of the rows, its gradient in the kernel parameters, and the sums for the next q.

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


# Length of a natural-gradient step of q, one of which follows every step of the kernel.
_STEP = 0.5


def polished(
    engine: Engine[Chunk],
    standardise: Standardise,
    sample: TrainingRows,
    rule: RivalRule,
    natural: Natural,
    n_rows: int,
    steps: int,
    rate: float,
) -> tuple[Params, Natural, bool]:
    """Move the kernel uphill on the bound of all rows, one pass a step (eq. 5.7).

    q moves along. Returned are the kernel of the highest bound, its q, and
    whether Ctrl-C ended the steps early.

    Parameters
    ----------
    engine, standardise : the rows
    sample : TrainingRows
        Kernel and inducing points to begin with.
    rule, natural : how sites are computed, and q
    n_rows : int
    steps : int
    rate : float
        Adam's, falling linearly to a twentieth.
    """
    kernel, Z = sample.kernel, sample.Z
    fits = kept_bytes(n_rows, Z.shape[1], Z.element_size()) <= engine.may_keep
    rows: Engine[Any] = engine.kept(standardise) if fits else engine
    params = {name: value.clone() for name, value in sample.params.items()}
    adam = Adam(list(params.values()), betas=(0.9, 0.95))
    base = Natural.prior(natural.linear.shape[0], natural.precision)
    prior, centre = base_gaussian(base, rule)
    natural, q = natural.posterior(centre)
    best, highest = (sample.params, natural), -math.inf
    for step in range(steps):
        at = {name: value.clone() for name, value in params.items()}
        try:
            work: Any = KernelGradient(kernel, at, Z, rule, q, step)
            sums = rows.total(work if rows is not engine else InParts(standardise, work, PART_ROWS))
        except NotPositiveDefiniteError:
            break
        except KeyboardInterrupt:
            return *best, True
        bound = elbo(float(sums.value), float(gaussian.kl(q, prior).sum()))
        if not math.isfinite(bound):
            break
        natural, q = natural.towards(base.plus(sums.precision, sums.linear), _STEP).posterior(centre)
        if bound > highest:
            best, highest = (at, natural), bound
        adam.along([sums.gradient[name] for name in params], rate * (1.0 - 0.95 * step / steps))
    return *best, False
