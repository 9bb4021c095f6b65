"""Weighted mean and spread of every column, in one reading."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesvm.scaling import Scaler, scaler_of_moments
from bayesvm.streaming.chunks import Chunk
from bayesvm.streaming.passes.labels import Labels

__all__ = ["Moments", "MomentSums"]

FloatArray = npt.NDArray[np.float64]

# Digits that a mean keeps, as a share of the spread and of the peak, and a
# spread as a share of itself: those beyond depend on the order of summation.
_BITS = 40
_PEAK_BITS = 48
_TINY = np.finfo(np.float64).smallest_subnormal


@dataclass(frozen=True)
class MomentSums:
    """Moments of columns, in units that are powers of two near their peaks, so that squares cannot overflow.

    Attributes
    ----------
    weight : float
        Of all rows.
    unit, mean, square : ndarray of shape (D,)
        Units; means, and sums of weighted squares about them, in these.
    """

    weight: float
    unit: FloatArray
    mean: FloatArray
    square: FloatArray

    def plus(self, other: MomentSums) -> MomentSums:
        """Chan, Golub and LeVeque's merge."""
        if not other.weight or not self.weight:
            return self if self.weight else other
        unit = np.maximum(self.unit, other.unit)
        a, b = self.unit / unit, other.unit / unit
        apart = other.mean * b - self.mean * a
        weight = self.weight + other.weight
        share = other.weight / weight
        return MomentSums(
            weight,
            unit,
            self.mean * a + apart * share,
            self.square * a**2 + other.square * b**2 + apart**2 * (self.weight * share),
        )

    def scaler(self) -> Scaler:
        """Standardisation by these moments, without the digits that depend on the order of the rows."""
        spread = _rounded(np.sqrt(self.square / self.weight), _BITS)
        step = np.maximum(np.ldexp(spread, -_BITS), np.ldexp(1.0, -_PEAK_BITS))
        step = np.ldexp(1.0, np.frexp(step)[1])
        return scaler_of_moments(np.round(self.mean / step) * step, spread, self.unit)


def _rounded(x: FloatArray, bits: int) -> FloatArray:
    """Numbers with so many binary digits."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


@dataclass(frozen=True)
class Moments:
    """The pass; its labels say what rows weigh."""

    labels: Labels

    def __call__(self, chunk: Chunk) -> MomentSums:
        X, _, weight = self.labels.weighted(chunk)
        total = float(weight.sum())
        if not total:
            zero = np.zeros(X.shape[1])
            return MomentSums(0.0, zero + _TINY, zero, zero)
        peak = np.maximum(X.max(0), -X.min(0))
        # Half the next power of two, which is finite for every peak.
        unit = np.where(peak > 0, np.ldexp(0.5, np.frexp(peak)[1]), _TINY)
        X = X / unit
        mean = (weight @ X) / total
        X -= mean
        return MomentSums(total, unit, mean, weight @ np.square(X, out=X))
