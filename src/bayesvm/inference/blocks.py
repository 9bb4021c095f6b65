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
# Numbers in the features that are computed at once.
_FEATURE_NUMBERS = 256_000
_FEWEST_ROWS = 256


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
    _cache: dict[str, Features] = field(init=False, default_factory=dict, repr=False)

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

    def blocks(self, size: int) -> Iterator[Block]:
        """The rows in blocks of at most ``size``."""
        size = max(_FEWEST_ROWS, size)
        known = self._known_features()
        for start in range(0, len(self), size):
            rows = slice(start, min(start + size, len(self)))
            if known is None:
                features = self.features(self.X[rows])
            else:
                features = Features(known.A[rows], known.residual[rows])
            yield Block(rows, features, self.y[rows], self.weight[rows], self.key[rows])

    def _known_features(self) -> Features | None:
        """Features of all rows, computed once, if they fit into memory."""
        N, P = len(self), self.n_inducing
        if N * P * self.X.element_size() > _CACHE_BYTES:
            return None
        if "all" not in self._cache:
            size = max(_FEWEST_ROWS, _FEATURE_NUMBERS // P)
            if size >= N:
                self._cache["all"] = self.features(self.X)
            else:
                known = Features(self.X.new_empty(N, P), self.X.new_empty(N))
                for start in range(0, N, size):
                    A, residual = self.features(self.X[start : start + size])
                    known.A[start : start + size] = A
                    known.residual[start : start + size] = residual
                self._cache["all"] = known
        return self._cache["all"]

    def first(self, n: int) -> TrainingRows:
        """The first rows with weights that stand for all; they are a random sample, being canonical."""
        scale = self.weight.sum() / self.weight[:n].sum()
        part = (self.X[:n], self.y[:n], scale * self.weight[:n], self.key[:n])
        return TrainingRows(*part, self.kernel, self.params, self.Z, self.n_classes)

    def batch(self, index: Tensor, scale: float) -> Block:
        """Chosen rows as a block whose weights are multiplied by ``scale``."""
        features = self.features(self.X[index])
        return Block(
            slice(0, index.shape[0]), features, self.y[index], scale * self.weight[index], self.key[index]
        )
