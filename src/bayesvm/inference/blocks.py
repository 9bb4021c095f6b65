"""Training rows in blocks, with their features kept where memory allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor

from bayesvm.core.covariance import Features, inducing_factor, whitened_features
from bayesvm.core.kernels.base import Kernel, Params

__all__ = ["Block", "TrainingRows"]

# Features up to this many bytes are computed once and kept between sweeps.
_CACHE_BYTES = 640 * 2**20
# Working memory of one block, in numbers.
_BLOCK_NUMBERS = 2_000_000


@dataclass(frozen=True)
class Block:
    """Consecutive training rows with their features."""

    rows: slice
    features: Features
    y: Tensor
    weight: Tensor
    key: Tensor


@dataclass(frozen=True)
class TrainingRows:
    """Standardised canonical rows under one kernel and one set of inducing points.

    Attributes
    ----------
    X, y, weight, key : Tensor
        Rows (N, D), class indices, weights and content keys (N,).
    kernel, params, Z : the covariance and the inducing points (P, D)
    n_classes : int
    """

    X: Tensor
    y: Tensor
    weight: Tensor
    key: Tensor
    kernel: Kernel
    params: Params
    Z: Tensor
    n_classes: int
    Lz: Tensor = field(init=False)
    _cache: dict[int, Features] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "Lz", inducing_factor(self.kernel, self.params, self.Z))

    def __len__(self) -> int:
        return self.X.shape[0]

    @property
    def n_inducing(self) -> int:
        return self.Z.shape[0]

    def features(self, X: Tensor) -> Features:
        """Whitened features of any rows."""
        return whitened_features(self.kernel, self.params, self.Z, self.Lz, X)

    def blocks(self, numbers_per_row: int) -> Iterator[Block]:
        """The rows block by block; a block's working memory is bounded.

        Parameters
        ----------
        numbers_per_row : int
            Temporary numbers the caller needs for one row.
        """
        size = max(256, _BLOCK_NUMBERS // max(1, numbers_per_row))
        keep = len(self) * self.n_inducing * self.X.element_size() <= _CACHE_BYTES
        for start in range(0, len(self), size):
            rows = slice(start, min(start + size, len(self)))
            features = self._cache.get(start)
            if features is None or features.A.shape[0] != rows.stop - start:
                features = self.features(self.X[rows])
                if keep:
                    self._cache[start] = features
            yield Block(rows, features, self.y[rows], self.weight[rows], self.key[rows])

    def batch(self, index: Tensor, scale: float) -> Block:
        """Chosen rows as a block whose weights are multiplied by ``scale``."""
        features = self.features(self.X[index])
        return Block(
            slice(0, index.shape[0]), features, self.y[index], scale * self.weight[index], self.key[index]
        )
