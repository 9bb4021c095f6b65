"""What pixels alone give away: no model is asked."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["check_pixels", "roughness"]

# What rounding may add to a pixel that was clipped.
_ROUNDING = 1e-6


def check_pixels(images: Tensor) -> None:
    """Refuse what is no images, or has pixels outside [0, 1]."""
    if images.ndim != 4 or len(images) == 0:
        raise ValueError(
            "images must have shape (N, channels, height, width), with N at least 1; "
            f"got {tuple(images.shape)}"
        )
    low, high = float(images.min()), float(images.max())
    if not (low >= -_ROUNDING and high <= 1.0 + _ROUNDING):
        raise ValueError(f"pixels must be in [0, 1], got values from {low:g} to {high:g}; divide by 255?")


def roughness(images: Tensor) -> Tensor:
    r"""Lower quartile of the absolute second differences of an image, (N,), in double precision.

    .. math:: |d * d^\top * x| / 6, \quad d = (1, -2, 1)

    of the only channel, or of the differences of neighbouring channels:
    edges are in all colours of a photograph at the same place, what was added
    pixel by pixel is not. Where a photograph is smooth it is nearly zero.

    This sees that something was added, not what for: noise of the same size
    is as rough as an attack or rougher, and a photograph that was resized or
    compressed is another thing again.

    Parameters
    ----------
    images : Tensor of shape (N, channels, height, width)
    """
    if images.ndim != 4 or min(images.shape[2:]) < 3:
        raise ValueError(
            f"images must have shape (N, channels, height, width), at least 3 x 3, got {tuple(images.shape)}"
        )
    x = images.detach().double()
    x = x.diff(dim=1) if x.shape[1] > 1 else x
    second = x.diff(n=2, dim=2).diff(n=2, dim=3).abs() / 6.0
    return torch.quantile(second.flatten(1), 0.25, dim=1)
