"""Noise of single pixels. ``level`` counts severities from zero."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float32]

DEVIATIONS = (0.04, 0.06, 0.08, 0.09, 0.10)
PHOTONS = (500, 250, 100, 75, 50)
SHARES = (0.01, 0.02, 0.03, 0.05, 0.07)


def gaussian_noise(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Add normal noise."""
    return x + np.float32(DEVIATIONS[level]) * rng.standard_normal(x.shape, np.float32)


def shot_noise(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Count photons: a Poisson number whose mean is proportional to the value."""
    photons = PHOTONS[level]
    return rng.poisson(photons * x.astype(np.float64)).astype(np.float32) / np.float32(photons)


def impulse_noise(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Set a share of the values to zero or one; what a lower severity sets, a higher one sets too."""
    u = rng.random(x.shape, np.float32)
    half = np.float32(SHARES[level] / 2)
    return np.where(u < half, np.float32(0), np.where(u >= 1 - half, np.float32(1), x))
