"""From rows as they were given to what a sweep works on: standardised rows, then their features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from bayesvm.core.covariance import Features, FeaturesOfMany
from bayesvm.inference.blocks import Block, features_in_parts
from bayesvm.scaling import Scaler
from bayesvm.streaming.chunks import Chunk
from bayesvm.streaming.passes.labels import Encoded, Labels

__all__ = ["PART_ROWS", "Below", "Featurise", "Standardise", "StandardisedRows", "kept_bytes"]

# Rows that are prepared at once where they are not kept.
PART_ROWS = 16_384


class StandardisedRows(NamedTuple):
    """Rows of positive weight as tensors: values (n, D), class indices, weights and content keys (n,)."""

    X: Tensor
    y: Tensor
    weight: Tensor
    key: Tensor


_Rows = TypeVar("_Rows", StandardisedRows, Block)


def kept_bytes(n_rows: int, width: int, bytes_a_number: int) -> int:
    """What prepared rows take: values or features, weight and residual variance; class index and key."""
    return n_rows * ((width + 2) * bytes_a_number + 2 * 8)


@dataclass(frozen=True)
class Standardise:
    """Standardised rows on a device.

    Attributes
    ----------
    labels : Labels
    scaler : Scaler
    device : str
    dtype : torch.dtype
    """

    labels: Labels
    scaler: Scaler
    device: str
    dtype: torch.dtype

    def __call__(self, chunk: Chunk) -> StandardisedRows:
        return self._tensors(self.labels.encoded(chunk))

    def all_rows(self, chunk: Chunk) -> StandardisedRows:
        """The same with rows of weight zero."""
        y = self.labels.indices(chunk.y)
        codes = self.labels.codes(chunk.X, y)
        return self._tensors(Encoded(chunk.X, y, chunk.weight * self.labels.factor[y], codes))

    def _tensors(self, rows: Encoded) -> StandardisedRows:
        X, y, weight, code = rows
        key = (code >> np.uint64(1)).astype(np.int64)
        return StandardisedRows(
            torch.as_tensor(self.scaler.transform(X)).to(self.device, self.dtype),
            torch.as_tensor(y).to(self.device),
            torch.as_tensor(weight).to(self.device, self.dtype),
            torch.as_tensor(key).to(self.device),
        )


@dataclass(frozen=True)
class Featurise:
    """Whitened features under a kernel and inducing points (eq. 1.3)."""

    features_of: FeaturesOfMany

    def __call__(self, rows: StandardisedRows) -> Block:
        with torch.no_grad():
            features = features_in_parts(self.features_of, rows.X, self.features_of.Lz.shape[0])
        return Block(slice(0, rows.y.shape[0]), features, rows.y, rows.weight, rows.key)


@dataclass(frozen=True)
class Below:
    """The rows whose content keys are below a number: a random share of them, whatever the chunks."""

    key: int

    def __call__(self, rows: _Rows) -> _Rows:
        inside = (rows.key < self.key).nonzero()[:, 0]
        if isinstance(rows, StandardisedRows):
            return StandardisedRows(*(column.index_select(0, inside) for column in rows))
        A, residual = rows.features
        features = Features(A.index_select(0, inside), residual.index_select(0, inside))
        return Block(slice(0, len(inside)), features, rows.y[inside], rows.weight[inside], rows.key[inside])
