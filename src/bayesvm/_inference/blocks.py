"""Training rows in blocks, with their features kept where memory allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from bayesvm._core.features import Features, FeaturesOfMany, inducing_factor, whitened_features
from bayesvm._core.kernels.base import Kernel, Params

# From this many rows on preparing the kernel for them pays.
_MANY_ROWS = 16_384
# Features up to this many bytes are computed once and kept between sweeps.
_CACHE_BYTES = 640 * 2**20
# Numbers in the features that are computed at once.
_FEATURE_NUMBERS = 256_000
_FEATURE_NUMBERS_ACCELERATOR = 64_000_000
_FEWEST_ROWS = 256


def features_in_parts(features: Callable[[Tensor], Features], X: Tensor, n_inducing: int) -> Features:
    """Features of many rows, computed in parts so that intermediate results stay in the cache."""
    N = X.shape[0]
    numbers = _FEATURE_NUMBERS if X.device.type == "cpu" else _FEATURE_NUMBERS_ACCELERATOR
    size = max(_FEWEST_ROWS, numbers // n_inducing)
    if size >= N:
        return features(X)
    known = Features(X.new_empty(N, n_inducing), X.new_empty(N))
    for start in range(0, N, size):
        A, residual = features(X[start : start + size])
        known.A[start : start + size] = A
        known.residual[start : start + size] = residual
    return known


@dataclass(frozen=True)
class Block:
    """Consecutive training rows with their features."""

    rows: slice
    features: Features
    y: Tensor
    weight: Tensor
    key: Tensor

    def split(self, size: int) -> Iterator[Block]:
        """The same rows in blocks of at most ``size``."""
        size = max(_FEWEST_ROWS, size)
        n = self.y.shape[0]
        A, residual = self.features
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            yield Block(
                rows, Features(A[rows], residual[rows]), self.y[rows], self.weight[rows], self.key[rows]
            )


def evidence_factor(weight: Tensor, unit: Tensor) -> Tensor:
    """What makes weights add up to the number of rows that are left out one by one (eq. 6.8)."""
    largest = weight.max()
    share = weight / largest
    return share.sum() / torch.dot(unit / largest, share) / largest


@dataclass(frozen=True)
class TrainingRows:
    """Standardised canonical rows under one kernel and one set of inducing points.

    Attributes
    ----------
    X, y, weight, unit, key : Tensor
        Rows (N, D), class indices, weights, what leave-one-out leaves out of them, and content keys (N,).
    kernel, params, Z : the covariance and the inducing points (P, D)
    n_classes : int
    group : Tensor of shape (N,) or None
        Numbers of the groups that leave-one-out leaves out together.
    """

    X: Tensor
    y: Tensor
    weight: Tensor
    unit: Tensor
    key: Tensor
    kernel: Kernel
    params: Params
    Z: Tensor
    n_classes: int
    group: Tensor | None = None
    Lz: Tensor = field(init=False)
    _cache: dict[str, Features] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "Lz", inducing_factor(self.kernel, self.params, self.Z))

    def __len__(self) -> int:
        return self.X.shape[0]

    @property
    def evidence(self) -> Tensor:
        """Weights in all that leave-one-out learns: a row of weight nine is one row (eqs. 5.2, 6.8)."""
        return self.weight * evidence_factor(self.weight, self.unit)

    @property
    def n_inducing(self) -> int:
        return self.Z.shape[0]

    def features(self, X: Tensor) -> Features:
        """Whitened features of any rows."""
        return whitened_features(self.kernel, self.params, self.Z, self.Lz, X)

    def features_of_many(self) -> FeaturesOfMany:
        """The same for many rows like these."""
        return FeaturesOfMany.like(self.kernel, self.params, self.Z, self.Lz, self.X)

    def blocks(self, size: int, within: range | None = None) -> Iterator[Block]:
        """The rows, or those of a range, in blocks of at most ``size``."""
        size = max(_FEWEST_ROWS, size)
        within = within or range(len(self))
        known = self._known_features()
        features_of = self.features if known is not None else self._features_of_all()
        for start in within[::size]:
            rows = slice(start, min(start + size, within.stop))
            if known is not None:
                features = Features(known.A[rows], known.residual[rows])
            else:
                features = features_in_parts(features_of, self.X[rows], self.n_inducing)
            yield Block(rows, features, self.y[rows], self.weight[rows], self.key[rows])

    def split(self, n: int) -> list[range]:
        """The rows in n ranges for as many threads; cached features are computed first."""
        self._known_features()
        size = max(1, -(-len(self) // n))
        return [range(start, min(start + size, len(self))) for start in range(0, len(self), size)]

    def _features_of_all(self) -> Callable[[Tensor], Features]:
        return self.features_of_many() if len(self) >= _MANY_ROWS else self.features

    def _known_features(self) -> Features | None:
        """Features of all rows, computed once, if they fit into memory."""
        N, P = len(self), self.n_inducing
        if N * P * self.X.element_size() > _CACHE_BYTES:
            return None
        if "all" not in self._cache:
            self._cache["all"] = features_in_parts(self._features_of_all(), self.X, P)
        return self._cache["all"]

    def first(self, n: int) -> TrainingRows:
        """The first rows, a random sample, as they are canonical; weights scaled to the total of all rows."""
        return self.head(n).standing_for(float(self.weight.sum()))

    def head(self, n: int) -> TrainingRows:
        """The first rows with their own weights."""
        if n >= len(self):
            return self
        first = {name: getattr(self, name)[:n] for name in ("X", "y", "weight", "unit", "key")}
        return replace(self, group=None if self.group is None else self.group[:n], **first)

    def standing_for(self, total: float) -> TrainingRows:
        """The same rows with weights that add up to a total."""
        scale = total / self.weight.sum()
        return replace(self, weight=scale * self.weight, unit=scale * self.unit)

    def batch(self, index: Tensor) -> Block:
        """Chosen rows as a block."""
        features = self.features(self.X[index])
        return Block(slice(0, index.shape[0]), features, self.y[index], self.weight[index], self.key[index])


# --- What methods that go through minibatches share: the order of rows, and when epochs no longer gain.


_RECENT_EPOCHS = 10
# Scales beyond exp(this) either way are a divergence, not a fit.
LARGEST_LOGARITHM = 50.0


def shuffled(n_rows: int, seed: int, epoch: int, device: torch.device) -> Tensor:
    """The order in which an epoch visits rows, by seed and epoch alone.

    Drawn on the CPU, so that it does not depend on the device.
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    return torch.randperm(n_rows, generator=generator).to(device)


def recent_gain(curve: list[float]) -> float:
    """How much the mean bound of the last epochs exceeds that of the ones before."""
    if len(curve) < 2 * _RECENT_EPOCHS:
        return math.inf
    last, before = curve[-_RECENT_EPOCHS:], curve[-2 * _RECENT_EPOCHS : -_RECENT_EPOCHS]
    return (sum(last) - sum(before)) / _RECENT_EPOCHS
