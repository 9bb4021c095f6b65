"""Last pass: class probabilities of every row, from the model without it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from bayesvm.calibration import Calibration
from bayesvm.core.likelihoods import ProperLikelihood
from bayesvm.inference.blocks import TrainingRows
from bayesvm.inference.evaluate import Ascent, evaluate
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.rivals import RivalRule
from bayesvm.streaming.chunks import Chunk
from bayesvm.streaming.passes.prepare import Standardise
from bayesvm.summary import probabilities_left_out

__all__ = ["LeftOut", "LeftOutRows"]

FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True)
class LeftOutRows:
    """Probabilities of the rows in their order, as one part for every chunk."""

    parts: list[FloatArray]

    def plus(self, other: LeftOutRows) -> LeftOutRows:
        self.parts.extend(other.parts)
        return self

    def proba(self) -> FloatArray:
        """Of all rows, shape (N, C)."""
        return np.concatenate(self.parts)


@dataclass(frozen=True)
class LeftOut:
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
    calibration: Calibration
    likelihood: ProperLikelihood | None

    def __call__(self, chunk: Chunk) -> LeftOutRows:
        X, y, weight, key = self.standardise.all_rows(chunk)
        rows = replace(self.like, X=X, y=y, weight=weight, key=key)
        q = self.ascent.q
        with torch.no_grad():
            sites = evaluate(rows, self.rule, q, Natural.prior(q.m.shape[0], rows.Lz), self.sweep).sites
        ascent = self.ascent._replace(sites=sites)
        return LeftOutRows([probabilities_left_out(rows, ascent, self.calibration, False, self.likelihood)])
