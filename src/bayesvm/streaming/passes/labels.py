"""From labels as they were given to class indices, and to weights with those of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm.rows import hash_values
from bayesvm.streaming.chunks import Chunk, changed

__all__ = ["Encoded", "Labels"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
# Leaves room for so many classes below the seed.
_CLASS_BITS = 24


class Encoded(NamedTuple):
    """Rows of positive weight: values as they were given, class indices, weights, content hashes."""

    X: FloatArray
    y: IntArray
    weight: FloatArray
    code: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Labels:
    """How a fit reads labels.

    Attributes
    ----------
    classes : ndarray of shape (C,)
        Labels in order.
    factor : ndarray of shape (C,)
        What the class multiplies into weights.
    seed : int
        Another seed gives other hashes.
    """

    classes: npt.NDArray[Any]
    factor: npt.NDArray[np.floating]
    seed: int

    def indices(self, y: npt.NDArray[Any]) -> IntArray:
        """Class indices of labels.

        Raises
        ------
        ValueError
            If a label is none of the classes: the first pass would have met it.
        """
        index = np.searchsorted(self.classes, y)
        unknown = self.classes[np.minimum(index, len(self.classes) - 1)] != y
        if np.any(unknown):
            raise ValueError(changed(f"the label {y[unknown].tolist()[0]!r} was not there in the first"))
        return index.astype(np.int64)

    def weighted(self, chunk: Chunk) -> tuple[FloatArray, IntArray, FloatArray]:
        """Values, class indices and weights of the rows of positive weight."""
        y = self.indices(chunk.y)
        weight = chunk.weight * self.factor[y]
        used = weight > 0
        if used.all():
            return chunk.X, y, weight
        return chunk.X[used], y[used], weight[used]

    def encoded(self, chunk: Chunk) -> Encoded:
        """The same with content hashes: of the bits of a row, its label and the seed, and of nothing else.

        The seed stands above the class indices in the number that is hashed with the values.
        """
        X, y, weight = self.weighted(chunk)
        X = np.ascontiguousarray(X)
        return Encoded(X, y, weight, self.codes(X, y))

    def codes(self, X: FloatArray, y: IntArray) -> npt.NDArray[np.uint64]:
        """Content hashes of rows with these class indices."""
        return hash_values(X, y + (self.seed << _CLASS_BITS))
