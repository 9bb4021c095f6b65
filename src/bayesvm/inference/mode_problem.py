"""The mode as a pair of convex problems over all rows: values, duals and the maps between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bayesvm.core import gaussian, linalg
from bayesvm.core.gaussian import Gaussian
from bayesvm.core.likelihoods import PointLikelihood, PointTerms
from bayesvm.inference.blocks import Block, TrainingRows
from bayesvm.inference.natural_parameters import Natural

__all__ = ["ModeProblem"]

_BLOCK_NUMBERS = 2_000_000
# Rows with less than this share of the largest curvature are left out of a
# factorisation: exact solves need more of them than preconditioners do.
_NEGLIGIBLE_EXACT = 1e-10
_NEGLIGIBLE_ROUGH = 1e-4
# Above this share of rows, gathering them costs more than it saves.
_MOST_GATHERED = 0.6


@dataclass(frozen=True)
class ModeProblem:
    r"""Minimise half the distance to the base minus the weighted log-likelihood of rows (eq. 8.20).

    Attributes
    ----------
    rows : TrainingRows
    mode : PointLikelihood
    base : Natural
        What q is without the rows.
    fitc : bool
        Whether rows have residuals of their own.
    """

    rows: TrainingRows
    mode: PointLikelihood
    base: Natural
    fitc: bool
    prior: Gaussian = field(init=False)
    k: Tensor = field(init=False)
    _is_prior: bool = field(init=False)

    def __post_init__(self) -> None:
        residual = torch.zeros_like(self.rows.weight)
        if self.fitc:
            residual = torch.cat([block.features.residual for block in self._blocks()])
        object.__setattr__(self, "prior", gaussian.from_natural(self.base.precision, self.base.linear))
        plain = Natural.prior(self.base.linear.shape[0], self.base.precision)
        object.__setattr__(self, "_is_prior", torch.equal(self.base.precision, plain.precision))
        # A row of weight c is c observations of one and the same latent.
        object.__setattr__(self, "k", self.rows.weight * residual)

    def _blocks(self) -> Iterator[Block]:
        J = self.base.linear.shape[0]
        return self.rows.blocks(_BLOCK_NUMBERS // (J + self.rows.n_inducing))

    # ------------------------------------------------------------ maps

    def latents(self, v: Tensor) -> Tensor:
        """A v_j of all rows, shape (N, J)."""
        return torch.cat([block.features.A @ v.mT for block in self._blocks()])

    def pulled_back(self, G: Tensor) -> Tensor:
        """Weighted sums of G a over the rows, shape (J, P)."""
        cG = self.rows.weight[:, None] * G
        total = torch.zeros_like(self.base.linear)
        for block in self._blocks():
            total.addmm_(cG[block.rows].mT, block.features.A)
        return total

    def precision(self, W: Tensor) -> Tensor:
        """The base's precision plus weighted sums of W a a^T, shape (J, P, P)."""
        cW = self.rows.weight[:, None] * W
        share = _NEGLIGIBLE_EXACT if self.mode.separable else _NEGLIGIBLE_ROUGH
        kept = cW > share * cW.amax(0)
        total = self.base.precision.clone(memory_format=torch.contiguous_format)
        for block in self._blocks():
            for precision, w, chosen in zip(total, cW[block.rows].mT, kept[block.rows].mT, strict=True):
                index = chosen.nonzero()[:, 0]
                A = block.features.A
                if len(index) < _MOST_GATHERED * len(chosen):
                    A, w = A[index], w[index]
                precision.addmm_((A * w[:, None]).mT, A)
        return total

    def hessian_product(self, terms: PointTerms, v: Tensor) -> Tensor:
        """The Hessian of the smoothed problem times v, shape (J, P)."""
        return self.base_product(v) + self.pulled_back(terms.bent(self.latents(v)))

    def base_product(self, v: Tensor) -> Tensor:
        """The base's precision times v."""
        if self._is_prior:
            return v
        return (self.base.precision @ v.unsqueeze(-1)).squeeze(-1)

    # ------------------------------------------------------------ values, one per group

    def fold(self, x: Tensor) -> Tensor:
        """Sums per latent function (J,), or their total (1,) where functions share a problem."""
        return x if self.mode.separable else x.sum(0, keepdim=True)

    def total(self, values: Tensor) -> Tensor:
        """Weighted sums over rows."""
        return self.rows.weight @ values

    def distance(self, m: Tensor) -> Tensor:
        """Half the squared distance of m from the base, shape (G,)."""
        shift = m - self.prior.m
        return self.fold(0.5 * (shift * self.base_product(shift)).sum(1))

    def smoothed(self, F: Tensor, width: Tensor) -> PointTerms:
        return self.mode.smoothed(self.rows.y, F, self.k, width)

    def at(self, F: Tensor) -> Tensor:
        """Weighted log-likelihood, shape (G,)."""
        return self.total(self.mode.at(self.rows.y, F, self.k))

    def conjugate(self, slope: Tensor) -> Tensor:
        return self.total(self.mode.conjugate(self.rows.y, slope, self.k))

    def dual(self, slope: Tensor, pulled: Tensor) -> Tensor:
        """A lower bound on the least objective, from slopes and their pull-back, shape (G,) (eq. 8.23)."""
        quadratic = linalg.inverse_quadratic(self.prior.R, pulled.unsqueeze(-1)).squeeze(-1)
        return self.conjugate(slope) - self.fold((pulled * self.prior.m).sum(1) + 0.5 * quadratic)

    def downhill(self, m: Tensor, pulled: Tensor) -> Tensor:
        """Minus the gradient of the objective where slopes have that pull-back, shape (J, P)."""
        return pulled - self.base_product(m - self.prior.m)

    def quadratic(self, m: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """First and second derivative of the distance along d, shape (G,) each."""
        by_base = self.base_product(d)
        return self.fold(((m - self.prior.m) * by_base).sum(1)), self.fold((d * by_base).sum(1))
