"""The learning rate as a function of the step: nothing to remember, nothing to restore."""

from __future__ import annotations

import math

__all__ = ["rate_at"]

# The shape of torch's OneCycleLR: share of steps that climb, first rate and last rate over the highest.
_CLIMB = 0.3
_FIRST = 1.0 / 25.0
_LAST = _FIRST * 1e-4


def rate_at(schedule: str, rate: float, step: int, n_steps: int) -> float:
    """Learning rate of a step, counted from zero, out of ``n_steps``."""
    if schedule == "constant" or n_steps == 1:
        return rate
    top = max(_CLIMB * n_steps - 1.0, 0.0)
    if step < top:
        return _between(_FIRST * rate, rate, step / top)
    return _between(rate, _LAST * rate, (step - top) / (n_steps - 1.0 - top))


def _between(start: float, end: float, share: float) -> float:
    """On half a cosine from start to end."""
    return end + 0.5 * (start - end) * (1.0 + math.cos(math.pi * share))
