"""Fog: a smooth random field laid over the image. ``level`` counts severities from zero."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float32]

AMOUNTS = (0.2, 0.5, 0.75, 1.0, 1.5)
DECAYS = (3.0, 3.0, 2.5, 2.0, 1.75)
OCTAVES = (2, 3, 5, 9, 17)


def fog(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Add the field, the same to all channels, and scale back to the largest value of the image."""
    amount = np.float32(AMOUNTS[level])
    # Image by image, so that fewer images have the same fields.
    draws = rng.random((len(x), sum(n * n for n in OCTAVES)), np.float32)
    field = _fields(draws, DECAYS[level], x.shape[2], x.shape[3])[:, None]
    largest = x.max((1, 2, 3), keepdims=True)
    return (x + amount * field) * (largest / (largest + amount))


def _fields(draws: _Floats, decay: float, height: int, width: int) -> _Floats:
    """Sum of random grids, each finer and lower than the one before, stretched to [0, 1] image by image."""
    total = np.zeros((len(draws), height, width), np.float32)
    start = 0
    for octave, n in enumerate(OCTAVES):
        grid = draws[:, start : start + n * n].reshape(-1, n, n)
        total += np.float32(decay**-octave) * (_interpolate(n, height) @ grid @ _interpolate(n, width).T)
        start += n * n
    total -= total.min((1, 2), keepdims=True)
    return total / np.maximum(total.max((1, 2), keepdims=True), np.float32(1e-6))


def _interpolate(n: int, pixels: int) -> _Floats:
    """The (pixels, n) matrix of linear interpolation between n points from edge to edge."""
    at = np.linspace(0, n - 1, pixels)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(n))).astype(np.float32)
