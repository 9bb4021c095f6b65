r"""The exact expected Crammer-Singer hinge: a true bound, whatever the rivals do.

The expectation over the maximum M of the rivals' latents is a one-dimensional
integral. Written against the density of M it is smooth and lives on the few
standard deviations where M can be (eqs. 4.1, 4.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bayesvm.core.elementwise import exp_, normal_cdf
from bayesvm.core.likelihoods.base import RowTerms

__all__ = ["MulticlassHinge"]

_TAIL = 5.0
# A rival this many standard deviations below plays no part; beyond it densities
# become denormal numbers, which processors treat many times slower.
_NEGLIGIBLE = 12.0
_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


@dataclass(frozen=True)
class MulticlassHinge:
    r"""log p(y | f) = -2 max(0, 1 + max_{t != y} f_t - f_y), in exact expectation.

    Parameters
    ----------
    n_nodes : int
        Trapezoid nodes. The integrand is analytic and decays at both ends, so
        the error falls exponentially in their number. 24 give 5e-6 where the
        classes of a row are about equally uncertain, as they are in fits; the
        widest sets the step, so a class ten times as sure as another costs
        digits (see tests).
    """

    n_nodes: int = 24
    shift_invariant: ClassVar[bool] = True

    def n_latents(self, n_classes: int) -> int:
        return n_classes

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        """Equation 1.1."""
        own = y.expand(f.shape[:-1])[..., None]
        rival = f.scatter(-1, own, -torch.inf).amax(-1)
        return -2.0 * (1.0 + rival - f.gather(-1, own)[..., 0]).clamp_min(0.0)

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        r"""Equations 4.1 and 4.2.

        On the window every rival has Phi > 3e-7, because the window starts at
        the largest of F_t - 5 s_t: neither logarithms nor the tail of Phi are
        needed. Nodes come first and rows last, so that sums and products over
        nodes and classes run over whole rows of memory.
        """
        own = y[None, :]
        F, s = F.mT.contiguous(), s2.mT.sqrt().contiguous()  # [C, N]
        F_y, s_y = F.gather(0, own), s.gather(0, own)  # [1, N]
        # The own class is pushed so far down that Phi = 1 and its density negligible.
        F_rival = F.scatter(0, own, -torch.inf)
        lower = (F_rival - _TAIL * s).amax(0)
        upper = (F_rival + _TAIL * s).amax(0)
        step = (upper - lower) / (self.n_nodes - 1)
        grid = torch.arange(self.n_nodes, dtype=F.dtype, device=F.device)
        x = lower + step * grid[:, None]  # [Q, N]

        # Nodes × classes × rows, the only large arrays.
        z = (x[:, None, :] - F_rival).div_(s).clamp_max_(_NEGLIGIBLE)
        Phi = torch.erf(z * math.sqrt(0.5)).add_(1.0).mul_(0.5)
        hazard = exp_(z.square_(), -0.5).mul_(_INV_SQRT_2PI / s).div_(Phi)
        mass = Phi.prod(1)  # P(M <= x)
        total = hazard.sum(1)

        u = (x + 1.0 - F_y) / s_y
        c = normal_cdf(u)
        pdf = torch.exp(-0.5 * u * u) * _INV_SQRT_2PI
        p = pdf / s_y
        h = s_y * (pdf + u * c)  # E max(0, 1 + x - f_y) in closed form

        dx = step * mass
        value = -2.0 * (dx * total * h).sum(0)
        # W_t = 2 int e^L hz_t (p + c (H - hz_t)) and dl/dF_t = -2 int c e^L hz_t
        cd = dx * c
        slope = hazard * cd[:, None, :]
        W = 2.0 * ((dx * p + cd * total)[:, None, :] - slope).mul_(hazard).sum(0)
        slope = -2.0 * slope.sum(0)
        W_y = 2.0 * (dx * p * total).sum(0, keepdim=True)
        slope = slope.scatter(0, own, 0.0)
        slope = slope.scatter(0, own, -slope.sum(0, keepdim=True))
        W = W.scatter(0, own, W_y)
        return RowTerms(value, slope.mT.contiguous(), W.clamp_min_(0.0).mT.contiguous())
