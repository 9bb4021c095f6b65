"""Hinges at the mode: the limit of zero variances, and its smoothed form (eqs. 8.20 to 8.22).

A row may keep a residual of its own, f_n = F_n + noise of variance k. At the
mode it takes the best value there is, which makes the hinge its Moreau envelope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bayesvm._core.likelihoods.base import PointTerms, RowTerms

# Below this the precision of a row on the margin exceeds what a factorisation can hold.
_SMALLEST_SCALE = 1e-9
# Steps that find a row's latent between two ends, and how well it must be known.
_INNER_STEPS = 60
_INNER_TOLERANCE = 1e-12


@dataclass(frozen=True)
class HingeMode:
    r"""max_f -(f - F)^2 / (2 k) - 2 max(0, 1 - y f), for one latent function or one against the rest.

    With k = 0 it is the hinge, -2 max(0, 1 - y F).
    """

    separable: ClassVar[bool] = True
    takes_residual: ClassVar[bool] = True

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        r"""The site of EM (Henao et al. 2014), with k in the place of the variance (eq. 8.20).

        :math:`\lambda = |1 - y f|` at the best f, :math:`W = 1 / (\lambda + k)`,
        and the target is :math:`y (1 + \lambda)`.
        """
        sign = _signs(y, F)
        b = 1.0 - sign * F
        scale = torch.where(b > 0.0, (b - 2.0 * s2).clamp_min(0.0), -b)
        W = 1.0 / (scale + s2).clamp_min(_SMALLEST_SCALE)
        return RowTerms(-_envelope(b, s2).sum(1), sign * (b + scale) * W, W)

    def at(self, y: Tensor, F: Tensor, k: Tensor) -> Tensor:
        return -_envelope(1.0 - _signs(y, F) * F, k[:, None])

    def smoothed(self, y: Tensor, F: Tensor, k: Tensor, width: Tensor) -> PointTerms:
        r"""The hinge as a softplus, :math:`2 \mu \log(1 + e^{b / \mu})`, and then its envelope (eq. 8.21).

        At the best latent :math:`\mu t = b - k \alpha` with slope :math:`\alpha = 2 \sigma(t)`.
        """
        sign = _signs(y, F)
        b, residual = 1.0 - sign * F, k[:, None]
        t = _inner(b, residual, width) if bool(k.any()) else b / width
        up, down = torch.sigmoid(t), torch.sigmoid(-t)
        bend = 2.0 / width * up * down
        value = 2.0 * width * torch.nn.functional.softplus(t) + 2.0 * residual * up.square()
        return PointTerms(-value, 2.0 * sign * up, bend / (1.0 + residual * bend), None)

    def feasible(self, y: Tensor, slope: Tensor) -> Tensor:
        sign = _signs(y, slope)
        return sign * (sign * slope).clamp(0.0, 2.0)

    def conjugate(self, y: Tensor, slope: Tensor, k: Tensor) -> Tensor:
        return slope.abs() - 0.5 * k[:, None] * slope.square()


def _signs(y: Tensor, F: Tensor) -> Tensor:
    """Labels -1 and 1, shape (N, J): of the second class, or of each class against the rest."""
    J = F.shape[1]
    own = y[:, None] == (torch.arange(J, device=y.device) if J > 1 else 1)
    return torch.where(own, 1.0, -1.0).to(F.dtype)


def _envelope(b: Tensor, k: Tensor) -> Tensor:
    """min_f of eq. 8.20: 0, then b^2 / (2k), then 2 b - 2 k."""
    quadratic = b.square() / (2.0 * k).clamp_min(torch.finfo(b.dtype).tiny)
    return torch.where(b >= 2.0 * k, 2.0 * (b - k), quadratic).where(b > 0.0, 0.0)


def _inner(b: Tensor, k: Tensor, width: Tensor) -> Tensor:
    """Solve width t + 2 k sigma(t) = b for t, by Newton's method with a shrinking bracket."""
    high = b / width
    low = (b - 2.0 * k) / width
    # Without the width the slope is b / k, if that is possible.
    share = (0.5 * b / k.clamp_min(torch.finfo(b.dtype).tiny)).clamp(1e-9, 1.0 - 1e-9)
    t = torch.logit(share).clamp(low, high)
    scale = _INNER_TOLERANCE * (b.abs() + k + width)
    for _ in range(_INNER_STEPS):
        up = torch.sigmoid(t)
        off = width * t + 2.0 * k * up - b
        if bool((off.abs() <= scale).all()):
            break
        low, high = torch.where(off <= 0.0, t, low), torch.where(off > 0.0, t, high)
        new = t - off / (width + 2.0 * k * up * (1.0 - up))
        t = torch.where((new > low) & (new < high), new, 0.5 * (low + high))
    return t


# --- The Crammer-Singer hinge at its mode, with the slope shared among rivals that tie (eq. 8.22).


@dataclass(frozen=True)
class CrammerSingerMode:
    r"""-2 max(0, 1 + max_{t != y} f_t - f_y), with the maximum rounded by a softmax (eq. 8.22).

    With :math:`r_t = f_t + [t \ne y]` it is :math:`-2 (\max_t r_t - r_y)`, and
    :math:`\mu \log \sum_t \exp(r_t / \mu)` replaces the maximum.
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
