"""The binary hinge: two classes described by one latent function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bayesvm.core.elementwise import normal_cdf
from bayesvm.core.likelihoods.base import RowTerms
from bayesvm.core.likelihoods.scale_mixture import DrawnSites, mixture_scales

__all__ = ["AugmentedBinaryHinge", "BinaryHinge", "hinge_given_scales", "log_hinge", "signs"]


def signs(y: Tensor, like: Tensor) -> Tensor:
    """Labels -1 and 1, shape (N, 1), for class indices 0 and 1."""
    return (2 * y - 1).to(like.dtype)[:, None]


def log_hinge(y: Tensor, f: Tensor) -> Tensor:
    """-2 max(0, 1 - y f) at latents f (..., N, 1), shape (..., N) (eq. 7.1)."""
    return -2.0 * (1.0 - signs(y, f) * f).clamp_min(0.0)[..., 0]


def hinge_given_scales(y: Tensor, f: Tensor, weight: Tensor, generator: torch.Generator) -> DrawnSites:
    r"""Sites of the hinge given drawn scales, for any weights (eqs. 8.30, 8.31).

    A row of weight c has the hinge of c b: :math:`f \sim N(y (1 + \lambda / c), \lambda / c^2)`.
    """
    sign, c = signs(y, f), weight[:, None]
    scale = mixture_scales(c * (1.0 - sign * f), generator) / c
    return DrawnSites(sign * (1.0 + scale), scale / c)


@dataclass(frozen=True)
class BinaryHinge:
    r"""log p(y | f) = -2 max(0, 1 - y f) for y in {-1, 1}, in exact expectation (eq. 4.3)."""

    shift_invariant: ClassVar[bool] = False

    def n_latents(self, n_classes: int) -> int:
        return 1

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        return log_hinge(y, f)

    def drawn_sites(self, y: Tensor, f: Tensor, weight: Tensor, generator: torch.Generator) -> DrawnSites:
        return hinge_given_scales(y, f, weight, generator)

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        sign, s = signs(y, F), s2.sqrt()
        b = 1.0 - sign * F
        z = b / s
        Phi = normal_cdf(z)
        phi = torch.exp(-0.5 * z * z) * 0.3989422804014327
        value = -2.0 * (s * phi + b * Phi)
        return RowTerms(value[:, 0], 2.0 * sign * Phi, 2.0 * phi / s)


@dataclass(frozen=True)
class AugmentedBinaryHinge:
    r"""The augmented bound of the binary hinge, -(sqrt(A) + b) (eqs. 2.3, 7.1)."""

    shift_invariant: ClassVar[bool] = False

    def n_latents(self, n_classes: int) -> int:
        return 1

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        return log_hinge(y, f)

    def drawn_sites(self, y: Tensor, f: Tensor, weight: Tensor, generator: torch.Generator) -> DrawnSites:
        return hinge_given_scales(y, f, weight, generator)

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        sign = signs(y, F)
        b = 1.0 - sign * F
        root = (b * b + s2).sqrt()
        return RowTerms(-(root + b)[:, 0], sign * (1.0 + b / root), 1.0 / root)
