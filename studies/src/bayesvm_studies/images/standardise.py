"""From bytes to standardised numbers: the first layer of every network here."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Mean and standard deviation of the training images' values over 255, by channel.
PIXEL_MOMENTS = {
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}


class Standardise(nn.Module):
    """Centre and scale the channels, with the moments of one set.

    The moments belong to the network, so that images of another set, or
    corrupted ones, are seen as it would see them in use.

    Parameters
    ----------
    name : {"mnist", "fashion_mnist", "cifar10"}
        Set whose moments are used.

    Notes
    -----
    Takes values from 0 to 255, bytes or numbers, of shape (n, channels,
    height, width); gives float32 in the memory order of channels last, in
    which convolutions of half precision are fastest.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, name: str) -> None:
        super().__init__()
        mean, deviation = (
            torch.tensor(v, dtype=torch.float32).view(1, -1, 1, 1) for v in PIXEL_MOMENTS[name]
        )
        self.register_buffer("mean", 255 * mean)
        self.register_buffer("scale", 1 / (255 * deviation))

    def forward(self, images: Tensor) -> Tensor:
        """Standardise."""
        centred = (images.to(self.mean.dtype) - self.mean) * self.scale
        ordered = centred.contiguous(memory_format=torch.channels_last)
        # With one channel both orders are the same bytes; only strides tell convolutions which is meant.
        _, channels, height, width = images.shape
        return ordered.as_strided(images.shape, (height * width * channels, 1, width * channels, channels))
