"""Columns halfway to their normal scores: a monotone curve for each, applied with numpy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesvm._compiled.kernels import Brief

Array = npt.NDArray[np.floating]


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
    Y = np.empty_like(Z)
    for d in range(len(x)):
        Y[:, d] = np.interp(Z[:, d], x[d], y[d])
    Y += slope * (Z - np.clip(Z, x[:, 0], x[:, -1]))
    return Y
