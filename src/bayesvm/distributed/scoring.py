"""Accuracy over chunks: one more sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayesvm.streaming.chunks import Chunk
from bayesvm.streaming.label_kind import label_kind

__all__ = ["Accuracy", "Hits"]


@dataclass(frozen=True)
class Hits:
    """Weight of the rows whose label was predicted, and of all."""

    right: float
    all: float

    def plus(self, other: Self) -> Self:
        """The weights of both groups of rows."""
        return type(self)(self.right + other.right, self.all + other.all)

    @property
    def share(self) -> float:
        """The accuracy.

        Raises
        ------
        ValueError
            If no row has weight.
        """
        if not self.all > 0:
            raise ValueError("all sample weights are zero: there is no row to score")
        return self.right / self.all


@dataclass(frozen=True)
class Accuracy:
    """A pass that compares labels with those that a fitted estimator predicts."""

    predictor: Any

    def __call__(self, chunk: Chunk) -> Hits:
        found, known = label_kind(chunk.y), label_kind(self.predictor.classes_)
        if found is not None and found != known:
            raise ValueError(
                f"the labels in y are {found}, and the model was fitted to labels that are {known}"
            )
        hit = self.predictor.predict(chunk.X) == chunk.y
        return Hits(float(chunk.weight @ hit), float(np.sum(chunk.weight)))
