"""Changes of brightness and contrast. ``level`` counts severities from zero; none of this is random."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float32]

BRIGHTER = (0.05, 0.1, 0.15, 0.2, 0.3)
CONTRASTS = (0.75, 0.5, 0.4, 0.3, 0.15)


def brightness(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Raise the value of hue, saturation, value, up to one.

    The value is the largest channel; with hue and saturation kept, every
    channel grows by the same factor. Black becomes grey.
    """
    value = x.max(1, keepdims=True)
    raised = np.minimum(value + np.float32(BRIGHTER[level]), np.float32(1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(value > 0, x * (raised / value), raised)


def contrast(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Draw every channel of an image to its mean."""
    mean = x.mean((2, 3), keepdims=True)
    return mean + np.float32(CONTRASTS[level]) * (x - mean)
