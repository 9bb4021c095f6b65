"""Kernels on rows with nominal features: equal or not, with one learned weight each (section 12).

A nominal feature is a block of columns, the scaled indicators of its levels. What a kernel
learns for a column it learns for a feature here, and columns of a block share it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

import torch
from torch import Tensor

from bayesvm._compiled.kernels import Array, BlockTerms, CompiledKernel, LinearTerm, OneDimensionalTerms
from bayesvm._core.kernels import compose
from bayesvm._core.kernels.additive import AdditiveRBF, weighted_sum, weights
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
    if isinstance(kernel, AdditiveRBF):
        return AdditiveOnBlocks(kernel, blocks)
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
class AdditiveOnBlocks:
    r"""The additive kernel with one term for each nominal feature (eq. 12.2).

    A term is linear in the indicators, so all of them are one matrix product. At an inducing point
    that is a mean of rows it is the mean of the covariances with these.

    Attributes
    ----------
    kernel : AdditiveRBF
    blocks : Blocks
    """

    kernel: AdditiveRBF
    blocks: Blocks

    @property
    def deviation_scale(self) -> float:
        return self.kernel.deviation_scale

    def init(self, X: Tensor) -> Params:
        return self.kernel.init(X[:, self.blocks.first])

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        n = self.blocks.n_numbers
        slope, offset = self._linear(params)
        K = offset + (X[:, n:] * slope) @ Z[:, n:].mT
        if not n:
            return K
        w, q = weights(params)
        return K + weighted_sum(X[:, :n], Z[:, :n], w[:n], q[:n])

    def diag(self, params: Params, X: Tensor) -> Tensor:
        n = self.blocks.n_numbers
        slope, offset = self._linear(params)
        return offset + weights(params)[0][:n].sum() + X[:, n:].square() @ slope

    def relevance(self, params: Params, n_features: int) -> Tensor:
        n = self.blocks.n_numbers
        w, q = weights(params)
        return torch.cat([(w * q)[:n], self._linear(params)[0]])

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> BlockTerms:
        n = self.blocks.n_numbers
        tensors = {name: torch.as_tensor(v) for name, v in params.items()}
        slope, offset = (factor * t.numpy() for t in self._linear(tensors))
        linear = LinearTerm((Z[:, n:] * slope).T.copy(), slope, float(offset), dtype)
        if not n:
            return BlockTerms(None, linear, n)
        share = float(weights(tensors)[0][:n].sum()) / float(tensors["log_variance"].exp())
        some = {name: v[:n] if v.ndim else v + math.log(share) for name, v in params.items()}
        return BlockTerms(OneDimensionalTerms.of(some, Z[:, :n], factor, dtype), linear, n)

    def _linear(self, params: Params) -> tuple[Tensor, Tensor]:
        """Slopes of the indicators, one for each column of the blocks, and the offset."""
        n, owner = self.blocks.n_numbers, self.blocks.owner
        w, q = (t[n:] for t in weights(params))
        square = w.new_tensor(self.blocks.squares)
        apart = torch.exp(-q * square)
        # w (1 - a), where 1 - a may be as small as rounding
        slope = -w * torch.expm1(-q * square) / square
        return slope[(owner[n:] - n).to(w.device)], torch.dot(w, apart)
