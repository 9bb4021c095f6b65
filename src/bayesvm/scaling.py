"""Standardisation that respects weights and does not care about units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["FARTHEST", "Scaler", "fit_scaler", "scaler_of_moments"]

FloatArray = npt.NDArray[np.floating]

# Standardised values are rounded to this many decimals, so that the same data
# in other units become the same numbers to the bit and ties stay ties.
_DECIMALS = 11
# A column whose spread is this small against its size is rounding noise.
_RELATIVE_SPREAD = 1e-13
# Standardised values are clipped here, so that no square of one overflows.
FARTHEST = 1e12


@dataclass(frozen=True)
class Scaler:
    """Weighted mean and standard deviation per column; constant columns are dropped unless all are.

    Attributes
    ----------
    mean, scale : ndarray of shape (D,)
        In the units of the data; the scale of a dropped column is 1.
    kept : ndarray of shape (D,)
        Whether a column varies.
    """

    mean: FloatArray
    scale: FloatArray
    kept: npt.NDArray[np.bool_]

    @classmethod
    def identity(cls, n_features: int) -> Scaler:
        """Columns as they are."""
        return cls(np.zeros(n_features), np.ones(n_features), np.ones(n_features, dtype=np.bool_))

    def transform(self, X: FloatArray) -> FloatArray:
        """Standardised columns that vary, shape (N, number kept)."""
        with np.errstate(over="ignore"):
            if not self.kept.all():
                Z = (X[:, self.kept] - self.mean[self.kept]) / self.scale[self.kept]
            else:
                Z = (X - self.mean) / self.scale
        np.clip(Z, -FARTHEST, FARTHEST, out=Z)
        return np.round(Z, _DECIMALS, out=Z)

    def with_all_columns(self) -> Scaler:
        """The same with constant columns kept: later rows may vary in them."""
        return Scaler(self.mean, self.scale, np.ones_like(self.kept))

    def inverse_transform(self, Z: FloatArray) -> FloatArray:
        """Rows in the units of the data; dropped columns get their mean."""
        X = np.tile(self.mean, (Z.shape[0], 1))
        X[:, self.kept] += Z * self.scale[self.kept]
        return X


def fit_scaler(X: FloatArray, weight: FloatArray) -> Scaler:
    """Weighted moments in two passes, scaled first so that squares cannot overflow."""
    total = weight.sum()
    peak = np.abs(X).max(0)
    unit = np.where(peak > 0, peak, 1.0)
    mean = (weight @ (X / unit)) / total
    spread = np.sqrt((weight @ np.square(X / unit - mean)) / total)
    return scaler_of_moments(mean, spread, unit)


def scaler_of_moments(mean: FloatArray, spread: FloatArray, unit: FloatArray) -> Scaler:
    """The scaler of columns whose mean and standard deviation, in units of about their peak, are known."""
    scale = spread * unit
    varies = (spread > _RELATIVE_SPREAD) & (scale > 0)
    kept = varies if varies.any() else np.ones_like(varies)
    return Scaler(mean * unit, np.where(varies, scale, 1.0), kept)
