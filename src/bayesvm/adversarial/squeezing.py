"""What a model says about coarser copies of an image: attacks hide in details that the class does not need.

Feature squeezing (Xu, Evans and Qi, 2018). An attack tunes every pixel to the
network; with fewer grey levels, or smoothed, the image is still of its class,
but the tuning is gone. Clean images change their prediction little.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from bayesvm.adversarial.model import Rows
from bayesvm.adversarial.outputs import log_odds_against, log_probabilities

__all__ = ["SQUEEZING", "fewer_levels", "smoothed"]

_BATCH = 1000


def fewer_levels(images: Tensor, bits: int) -> Tensor:
    """Pixels rounded to 2^bits grey levels.

    The gradient is that of the images themselves (straight through): an
    attacker who knows of the rounding does not stop at its steps.
    """
    top = 2.0**bits - 1.0
    return images + ((images * top).round() / top - images).detach()


def smoothed(images: Tensor) -> Tensor:
    """Mean of every pixel and its eight neighbours with weights 1, 2, 1 along rows and columns."""
    w = images.new_tensor([0.25, 0.5, 0.25])
    channels = images.shape[1]
    kernel = (w[:, None] * w).expand(channels, 1, 3, 3)
    around = torch.nn.functional.pad(images, (1, 1, 1, 1), mode="reflect")
    return torch.nn.functional.conv2d(around, kernel, groups=channels)


def _response(rows: Rows, squeeze: Callable[[Tensor], Tensor]) -> Tensor | None:
    """Rise of the log odds against the favourite class of the image, when it is squeezed."""
    if rows.images is None or rows.model is None:
        return None
    parts = [rows.model.rows(squeeze(batch)) for batch in rows.images.split(_BATCH)]
    before, after = (log_probabilities(r.output).double() for r in (rows, Rows.joined(parts)))
    return log_odds_against(after, rows.favourite) - log_odds_against(before, rows.favourite)


# By name, as ``SCORES``; none of them is large for all attacks: where the image is still in its own
# class the odds against it fall. They are for detectors that look at both tails.
SQUEEZING: dict[str, Callable[[Rows], Tensor | None]] = {
    "one_bit": partial(_response, squeeze=partial(fewer_levels, bits=1)),
    "three_bits": partial(_response, squeeze=partial(fewer_levels, bits=3)),
    "smoothing": partial(_response, squeeze=smoothed),
}
