"""Columns halfway to their normal scores: a monotone curve for each, applied with numpy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesvm._compiled.kernels import Brief

Array = npt.NDArray[np.floating]

# Standardised values are rounded to this many decimals, so that the same data in other units become the
# same numbers to the bit and ties stay ties: a curve may be steep where an outlier crowds the others.
DECIMALS = 11
# So many rows at once are looked up together: a call for each column takes a microsecond.
_FEW_ROWS = 16


@dataclass(frozen=True, repr=False)
class Curves(Brief):
    """One increasing, piecewise linear function per column (eq. 1.7).

    Attributes
    ----------
    x, y : ndarray of shape (D, K)
        Knots and what they become; both increase along each row.
    slope : ndarray of shape (D,)
        Beyond the outermost knots.
    """

    x: Array
    y: Array
    slope: Array

    def __call__(self, Z: Array) -> Array:
        """The curves at standardised columns, shape (N, D)."""
        return _follow(self.x, self.y, self.slope, Z)

    def inverse(self, Y: Array) -> Array:
        """The columns that become these."""
        return _follow(self.y, self.x, 1.0 / self.slope, Y)

    def of(self, columns: npt.NDArray[np.bool_]) -> Curves:
        """The curves of some columns."""
        return Curves(self.x[columns], self.y[columns], self.slope[columns])


def _follow(x: Array, y: Array, slope: Array, Z: Array) -> Array:
    """Linear interpolation in every column, and a slope beyond."""
    inside = np.clip(Z, x[:, 0], x[:, -1])
    if len(Z) <= _FEW_ROWS:
        d, i = np.arange(len(x)), (inside[:, :, None] >= x[:, 1:-1]).sum(2)
        left, low = x[d, i], y[d, i]
        Y = low + (y[d, i + 1] - low) / (x[d, i + 1] - left) * (inside - left)
    else:
        Y = np.empty_like(Z)
        for k in range(len(x)):
            Y[:, k] = np.interp(inside[:, k], x[k], y[k])
    Y += slope * (Z - inside)
    return Y
