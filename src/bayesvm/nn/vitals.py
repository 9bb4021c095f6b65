"""Whether a head is alive, told from running means that cost no waiting for the device."""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm.nn.errors import HeadError
from bayesvm.nn.features import Whitened

__all__ = ["NOT_FINITE", "diagnose", "may_wait", "measure"]

# Weight of a step in the running means, and steps before they count.
_RATE = 0.02
_MANY_STEPS = 200
# Rows whose whitened features vary by less than this share of the prior
# variance look all alike to the head.
_NO_SPREAD = 1e-3
# Then at most this share of rows is ahead of a rival unless classes are very
# unequal; rows that are alike to rounding are alike whatever that share is.
_NEAR_CHANCE = 0.6
_NO_SPREAD_AT_ALL = 1e-6

NOT_FINITE = (
    "the head met numbers that are not finite; q was left as it was. What to do: check the inputs for NaN; "
    "lower the learning rate or warm it up; clip gradients (torch.nn.utils.clip_grad_norm_); keep "
    "normalise=True; then go on from the last good checkpoint"
)


def measure(vitals: Tensor, step: Tensor, rows: Whitened, lead: Tensor) -> None:
    """Update running means of three shares: rows ahead of their rival, spread and size of their features."""
    A, residual, diag = rows
    centre = A.mean(0)
    left = residual.mean() / diag[0]  # the kernel is stationary
    spread = torch.dot(centre, centre) / diag[0]
    now = torch.stack([(lead > 0).to(A.dtype).mean(), 1.0 - left - spread, 1.0 - left])
    vitals.lerp_(now.nan_to_num(), (step + 1.0).reciprocal().clamp_min(_RATE))


def diagnose(vitals: Tensor, step: int) -> None:
    """Raise if the head is stuck.

    Raises
    ------
    HeadError
        With what to do.
    """
    ahead, spread, square = vitals.tolist()
    alike = spread < _NO_SPREAD_AT_ALL or (spread < _NO_SPREAD and ahead < _NEAR_CHANCE)
    if step < _MANY_STEPS or not alike:
        return
    if square < 10 * _NO_SPREAD:
        why = (
            "the features lie far from all inducing points, where the kernel and its slopes vanish. Keep "
            "normalise=True, call initialise() with features of the network as it is now, or lower the rate"
        )
    else:
        why = (
            "all rows have the same features. Look for a dead activation before the head or a collapsed "
            "network; lower the rate or warm it up, and start again"
        )
    raise HeadError(f"the head is stuck: after {step} steps its rows are not told apart ({why})")


def may_wait() -> bool:
    """Whether the host may look at numbers: not while a graph is being made of what runs."""
    if torch.compiler.is_compiling():
        return False
    return not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())
