"""Kernels on rows with nominal features: equal or not, with one learned weight each (section 12).

A nominal feature is a block of columns, the scaled indicators of its levels. What a kernel
learns for a column it learns for a feature here, and columns of a block share it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

import torch
from torch import Tensor

from bayesvm._compiled.kernels import (
    Array,
    CompiledKernel,
    ConstantTerm,
    FactorsOfBlocks,
    FactorsOfColumns,
)
from bayesvm._core.kernels import compose
from bayesvm._core.kernels.anova import Anova, product_over_columns, shares_and_rates
from bayesvm._core.kernels.base import CrossToInducing, Kernel, Params
from bayesvm._core.kernels.linear import Constant


@dataclass(frozen=True)
class Blocks:
    """Which columns belong to which feature: numbers first, then a block for every nominal feature.

    Attributes
    ----------
    n_numbers : int
    sizes : tuple of int
        Columns of each block.
    squares : tuple of float
        The square of what an indicator is where it is not zero: half the squared distance
        between two levels.
    """

    n_numbers: int
    sizes: tuple[int, ...]
    squares: tuple[float, ...]

    @property
    def n_features(self) -> int:
        return self.n_numbers + len(self.sizes)

    @property
    def owner(self) -> Tensor:
        """The feature that each column belongs to."""
        return _owner(self)

    @property
    def first(self) -> list[int]:
        """The first column of each feature."""
        starts = accumulate(self.sizes, initial=self.n_numbers)
        return [*range(self.n_numbers), *list(starts)[:-1]]


@lru_cache(maxsize=64)
def _owner(blocks: Blocks) -> Tensor:
    widths = torch.tensor([1] * blocks.n_numbers + list(blocks.sizes))
    return torch.arange(blocks.n_features).repeat_interleave(widths)


def on_blocks(kernel: Kernel, blocks: Blocks) -> Kernel:
    """The same kernel on rows in blocks."""
    if isinstance(kernel, (compose.Sum, compose.Product)):
        return replace(kernel, kernels=tuple(on_blocks(k, blocks) for k in kernel.kernels))
    if isinstance(kernel, compose.Scaled):
        return replace(kernel, kernel=on_blocks(kernel.kernel, blocks))
    if isinstance(kernel, Anova):
        return AnovaOnBlocks(kernel, blocks)
    return kernel if isinstance(kernel, Constant) else SharedScales(kernel, blocks)


@dataclass(frozen=True)
class SharedScales:
    """A kernel whose parameters of columns are shared by the columns of a block.

    A kernel of the scaled distance becomes the product of its numeric part and of one factor for each
    nominal feature that differs (eq. 12.1).

    Attributes
    ----------
    kernel : Kernel
        Parameters with one entry for each feature are those that are shared.
    blocks : Blocks
    """

    kernel: Kernel
    blocks: Blocks

    @property
    def deviation_scale(self) -> float:
        return float(getattr(self.kernel, "deviation_scale", compose.DEVIATION_SCALE))

    def init(self, X: Tensor) -> Params:
        return self.kernel.init(X[:, self.blocks.first])

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return self.kernel.cross(self._of_columns(params), X, Z)

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return self.kernel.diag(self._of_columns(params), X)

    def relevance(self, params: Params, n_features: int) -> Tensor:
        return compose.slope_variances(self.kernel, self._of_columns(params), n_features)

    def to_inducing(self, params: Params, Z: Tensor, X: Tensor) -> CrossToInducing:
        return compose.cross_to_inducing(self.kernel, self._of_columns(params), Z, X)

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> CompiledKernel:
        owner, n = self.blocks.owner.numpy(), self.blocks.n_features
        of_columns = {name: v[owner] if v.ndim and 1 < len(v) == n else v for name, v in params.items()}
        return compose.compiled(self.kernel, of_columns, Z, dtype, factor)

    def _of_columns(self, params: Params) -> Params:
        n, owner = self.blocks.n_features, self.blocks.owner
        return {
            name: v[owner.to(v.device)] if v.ndim and 1 < v.shape[0] == n else v for name, v in params.items()
        }


@dataclass(frozen=True)
class AnovaOnBlocks:
    r"""The ANOVA kernel with one factor for each nominal feature (eq. 12.2).

    A factor is linear in the indicators. At an inducing point that is a mean of rows it is the
    mean of the factors of these.

    Attributes
    ----------
    kernel : Anova
    blocks : Blocks
    """

    kernel: Anova
    blocks: Blocks

    @property
    def deviation_scale(self) -> float:
        return self.kernel.deviation_scale

    def init(self, X: Tensor) -> Params:
        return self.kernel.init(X[:, self.blocks.first])

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        n = self.blocks.n_numbers
        b, rho = shares_and_rates(params)
        K = params["log_variance"].exp()
        if n:
            K = K * product_over_columns(X[:, :n], Z[:, :n], b[:n], rho[:n])
        for x, z, slope, offset in zip(
            X[:, n:].split(self.blocks.sizes, 1),
            Z[:, n:].split(self.blocks.sizes, 1),
            *self._linear(params),
            strict=True,
        ):
            K = K * (offset + slope * (x @ z.mT))
        return K

    def diag(self, params: Params, X: Tensor) -> Tensor:
        variance = params["log_variance"].exp().expand(X.shape[0])
        blocks = X[:, self.blocks.n_numbers :].split(self.blocks.sizes, 1)
        for x, slope, offset in zip(blocks, *self._linear(params), strict=True):
            variance = variance * (offset + slope * x.square().sum(1))
        return variance

    def relevance(self, params: Params, n_features: int) -> Tensor:
        n, owner = self.blocks.n_numbers, self.blocks.owner
        slopes = self.kernel.relevance(params, n_features)[:n]
        of_blocks = params["log_variance"].exp() * self._linear(params)[0]
        return torch.cat([slopes, of_blocks[(owner[n:] - n).to(of_blocks.device)]])

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> FactorsOfBlocks:
        n = self.blocks.n_numbers
        slope, offset = (
            t.numpy() for t in self._linear({name: torch.as_tensor(v) for name, v in params.items()})
        )
        some = {name: v[:n] if v.ndim else v for name, v in params.items()}
        numbers: FactorsOfColumns | ConstantTerm = (
            FactorsOfColumns.of(some, Z[:, :n], factor, dtype)
            if n
            else ConstantTerm.of(params["log_variance"], Z, factor, dtype)
        )
        starts = torch.tensor((n, *self.blocks.sizes)).cumsum(0).numpy()
        return FactorsOfBlocks(numbers, starts, slope, offset, Z[:, n:].copy())

    def _linear(self, params: Params) -> tuple[Tensor, Tensor]:
        """Slopes and offsets of the factors of the blocks, shape (G,) each."""
        n = self.blocks.n_numbers
        b, rho = (t[n:] for t in shares_and_rates(params))
        square = b.new_tensor(self.blocks.squares)
        u = rho * (2.0 * square).sqrt()
        lost = b * (1.0 - (1.0 + u) * torch.exp(-u))
        return lost / square, 1.0 - lost
