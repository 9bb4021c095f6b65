"""The binary hinge: two classes described by one latent function."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bayesvm.core.elementwise import normal_cdf
from bayesvm.core.likelihoods.base import RowTerms

__all__ = ["AugmentedBinaryHinge", "BinaryHinge"]


def _signs(y: Tensor, like: Tensor) -> Tensor:
    return (2 * y - 1).to(like.dtype)[:, None]


@dataclass(frozen=True)
class BinaryHinge:
    r"""log p(y | f) = -2 max(0, 1 - y f) for y in {-1, 1}, in exact expectation (eq. 4.3)."""

    def n_latents(self, n_classes: int) -> int:
        return 1

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        sign, s = _signs(y, F), s2.sqrt()
        b = 1.0 - sign * F
        z = b / s
        Phi = normal_cdf(z)
        phi = torch.exp(-0.5 * z * z) * 0.3989422804014327
        value = -2.0 * (s * phi + b * Phi)
        return RowTerms(value[:, 0], 2.0 * sign * Phi, 2.0 * phi / s)


@dataclass(frozen=True)
class AugmentedBinaryHinge:
    r"""The augmented bound of the binary hinge, -(sqrt(A) + b) (eqs. 2.3, 7.1)."""

    def n_latents(self, n_classes: int) -> int:
        return 1

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        sign = _signs(y, F)
        b = 1.0 - sign * F
        root = (b * b + s2).sqrt()
        return RowTerms(-(root + b)[:, 0], sign * (1.0 + b / root), 1.0 / root)
