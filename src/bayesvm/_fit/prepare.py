"""From given rows to the input of a sweep: standardised rows, then their features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core.calibration import Calibration
from bayesvm._core.features import Features, FeaturesOfMany
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import ProperLikelihood
from bayesvm._fit.engine import Chunk
from bayesvm._fit.leave_one_out import probabilities_left_out
from bayesvm._fit.passes import EncodedRows, Encoding
from bayesvm._fit.rows import Scaler
from bayesvm._inference.blocks import Block, TrainingRows, features_in_parts
from bayesvm._inference.rivals import RivalRule
from bayesvm._inference.task import Ascent, evaluate

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
    """Memory of prepared rows: values or features, weight and residual variance; class index and key."""
    return n_rows * ((width + 2) * bytes_a_number + 2 * 8)


@dataclass(frozen=True)
class Standardise:
    """Standardised rows on a device.

    Attributes
    ----------
    encoding : Encoding
    scaler : Scaler
    device : str
    dtype : torch.dtype
    """

    encoding: Encoding
    scaler: Scaler
    device: str
    dtype: torch.dtype

    def __call__(self, chunk: Chunk) -> StandardisedRows:
        return self._tensors(self.encoding.rows(chunk))

    def all_rows(self, chunk: Chunk) -> StandardisedRows:
        """The same with rows of weight zero."""
        return self._tensors(self.encoding.rows(chunk, positive=False))

    def _tensors(self, rows: EncodedRows) -> StandardisedRows:
        return StandardisedRows(
            torch.as_tensor(self.scaler.transform(rows.X)).to(self.device, self.dtype),
            torch.as_tensor(rows.y).to(self.device),
            torch.as_tensor(rows.weight).to(self.device, self.dtype),
            torch.as_tensor(rows.key).to(self.device),
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
class KeyThreshold:
    """The rows whose content keys are below a number: a random share, independent of the chunks."""

    key: int

    def __call__(self, rows: _Rows) -> _Rows:
        inside = (rows.key < self.key).nonzero()[:, 0]
        if isinstance(rows, StandardisedRows):
            return StandardisedRows(*(column.index_select(0, inside) for column in rows))
        A, residual = rows.features
        features = Features(A.index_select(0, inside), residual.index_select(0, inside))
        return Block(slice(0, len(inside)), features, rows.y[inside], rows.weight[inside], rows.key[inside])


# --- Last pass: class probabilities of every row, from the model without it.


FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True)
class ProbabilitiesLeftOut:
    """Probabilities of the rows in their order, as one part for every chunk."""

    parts: list[FloatArray]

    def plus(self, other: ProbabilitiesLeftOut) -> ProbabilitiesLeftOut:
        self.parts.extend(other.parts)
        return self

    def proba(self) -> FloatArray:
        """Of all rows, shape (N, C)."""
        return np.concatenate(self.parts)


@dataclass(frozen=True)
class WithoutEach:
    """The pass: sites under the final q, and what is left without each (eqs. 5.1, 5.2).

    Attributes
    ----------
    standardise : Standardise
    like : TrainingRows
        Any rows under the kernel and the inducing points.
    ascent : Ascent
        Without its sites, which are those of other rows.
    rule : RivalRule
    sweep : int
        Number of the sweep that makes the sites.
    calibration, likelihood : how latents become probabilities
    """

    standardise: Standardise
    like: TrainingRows
    ascent: Ascent
    rule: RivalRule
    sweep: int
    calibration: tuple[Calibration, ...]
    likelihood: ProperLikelihood | None

    def __call__(self, chunk: Chunk) -> ProbabilitiesLeftOut:
        X, y, weight, key = self.standardise.all_rows(chunk)
        rows = replace(self.like, X=X, y=y, weight=weight, unit=weight, key=key)
        q = self.ascent.q
        with torch.no_grad():
            sites = evaluate(rows, self.rule, q, Natural.prior(q.m.shape[0], rows.Lz), self.sweep).sites
        ascent = self.ascent._replace(sites=sites)
        return ProbabilitiesLeftOut(
            [probabilities_left_out(rows, ascent, self.calibration, False, self.likelihood)]
        )
