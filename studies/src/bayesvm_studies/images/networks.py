"""The networks of the experiments, up to the features that a last layer classifies.

Every function gives the network and the number of its features; the network
takes images with values from 0 to 255, (n, channels, height, width), and gives
(n, features). Weights are drawn from torch's global generator: call
``torch.manual_seed`` first.

The paper names layers and widths. What it leaves out is chosen here, once for
both of its networks and whatever the last layer:

- ReLU after every convolution and every fully connected layer, the last one
  included: the 100 features are what comes out of its ReLU, and the last layer
  (softmax or ours) is all that follows;
- convolutions of step one that keep height and width (zeros beyond the edge);
- max pooling over 2 x 2 pixels with step two;
- biases everywhere, torch's default start, no normalisation layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


def paper_mnist(dropout: float = 0.0) -> tuple[nn.Module, int]:
    """The paper's network for MNIST: conv(32,5,5)-conv(64,3,3)-max_pool-fc(1024)-fc(100).

    28 x 28 pixels become 64 x 14 x 14 = 12,544 numbers, 1024, and 100
    features: 12,967,908 parameters.

    Parameters
    ----------
    dropout : float, default=0
        Share of the inputs of both fully connected layers that is dropped,
        for MC dropout; that of the features is the last layer's affair.
    """
    layers = [
        Standardise("mnist"),
        *_convolution(1, 32, 5),
        *_convolution(32, 64, 3),
        nn.MaxPool2d(2),
        nn.Flatten(),
        *_dense(64 * 14 * 14, 1024, dropout),
        *_dense(1024, 100, dropout),
    ]
    return _finished(layers), 100


def paper_cifar10(dropout: float = 0.0) -> tuple[nn.Module, int]:
    """The paper's network for CIFAR-10.

    conv(128,3,3)-conv(128,3,3)-max_pool-conv(128,3,3)-max_pool-fc(256)-fc(100):
    32 x 32 pixels become 128 x 8 x 8 = 8,192 numbers, 256, and 100 features:
    2,421,860 parameters.

    Parameters
    ----------
    dropout : float, default=0
        As in :func:`paper_mnist`.
    """
    layers = [
        Standardise("cifar10"),
        *_convolution(3, 128, 3),
        *_convolution(128, 128, 3),
        nn.MaxPool2d(2),
        *_convolution(128, 128, 3),
        nn.MaxPool2d(2),
        nn.Flatten(),
        *_dense(128 * 8 * 8, 256, dropout),
        *_dense(256, 100, dropout),
    ]
    return _finished(layers), 100


def residual9(width: int = 96, dropout: float = 0.0) -> tuple[nn.Module, int]:
    """A residual network of nine layers for CIFAR-10, the last of them left to the head.

    Eight 3 x 3 convolutions, each with batch normalisation and ReLU: one of
    ``width`` channels; one of twice as many, pooled, with a residual block of
    two; one of four times, pooled; one of eight times, pooled, with a residual
    block of two. The largest value of every channel over what is left, 4 x 4
    pixels, is a feature. This shape is known from fast training on CIFAR-10;
    the code is ours. Features for predictions are means over an image and its
    mirror image (:class:`Mirrored`).

    A recipe for 95 % and more: :class:`~bayesvm_studies.images.CropFlipCutout`,
    a one-cycle rate, weight decay, bf16, some tens of epochs.

    Parameters
    ----------
    width : int, default=96
        Channels of the first layer; there are eight times as many features.
        96 gives 14,773,344 parameters.
    dropout : float, default=0
        Share that is dropped between the convolutions of the residual
        blocks, for MC dropout.
    """
    layers = [
        *_normalised(3, width),
        *_normalised(width, 2 * width),
        nn.MaxPool2d(2),
        Residual(2 * width, dropout),
        *_normalised(2 * width, 4 * width),
        nn.MaxPool2d(2),
        *_normalised(4 * width, 8 * width),
        nn.MaxPool2d(2),
        Residual(8 * width, dropout),
        LargestPerChannel(),
    ]
    return _finished([Standardise("cifar10"), Mirrored(nn.Sequential(*layers))]), 8 * width


class Residual(nn.Module):
    """Two normalised convolutions whose result is added to what came in.

    Parameters
    ----------
    channels : int
    dropout : float, default=0
        Share dropped between the two.
    """

    def __init__(self, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        between = [nn.Dropout(dropout)] if dropout > 0 else []
        self.branch = nn.Sequential(
            *_normalised(channels, channels), *between, *_normalised(channels, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add."""
        return x + self.branch(x)


class Mirrored(nn.Module):
    """In evaluation the mean of what an image and its mirror image give; in training the image alone.

    For networks trained on images of which half are mirrored: such a network
    is nearly blind to the difference, and averaging makes it so exactly.

    Parameters
    ----------
    body : Module
        From images to features.
    """

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        """Features, (n, features)."""
        features: Tensor = self.body(x)
        return features if self.training else 0.5 * (features + self.body(x.flip(3)))


class LargestPerChannel(nn.Module):
    """Largest value of every channel.

    ``amax``, unlike adaptive pooling, has gradients that are the same every
    time on a GPU.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Reduce (n, channels, height, width) to (n, channels)."""
        return x.amax((2, 3))


def _convolution(inputs: int, outputs: int, size: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, size, padding=size // 2), nn.ReLU(inplace=True)]


def _normalised(inputs: int, outputs: int) -> list[nn.Module]:
    """A 3 x 3 convolution; the normalisation after it has the bias."""
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def _dense(inputs: int, outputs: int, dropout: float) -> list[nn.Module]:
    before = [nn.Dropout(dropout)] if dropout > 0 else []
    return [*before, nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]


def _finished(layers: list[nn.Module]) -> nn.Module:
    """One module, its weights in the memory order in which images arrive."""
    network = nn.Sequential(*layers)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            module.weight.data = module.weight.data.contiguous(memory_format=torch.channels_last)
    return network


class Draws(NamedTuple):
    """What happens to each of n images; all of shape (n,).

    Attributes
    ----------
    down, right : Tensor
        Place of the crop in the padded image, from zero.
    flip : Tensor of bool
        Whether left and right are exchanged.
    row, column : Tensor
        Middle of the hole, in the crop.
    """

    down: Tensor
    right: Tensor
    flip: Tensor
    row: Tensor
    column: Tensor


@dataclass(frozen=True)
class CropFlipCutout:
    """Crop, flip and cut a hole: ``augment(X, generator)`` for a training recipe.

    The image is padded by reflection and cropped to its size at a random
    place, mirrored in half of the cases, and a square around a random pixel
    (cut off at the edge) is filled.

    Parameters
    ----------
    padding : int, default=4
    flip : bool, default=True
        Not for digits.
    hole : int, default=12
        Side of the square; 0 for none.
    fill : tuple of int, default=(125, 123, 114)
        Value of each channel in the hole: by default the mean of CIFAR-10,
        which is zero after standardisation.

    Notes
    -----
    The type of the images stays (bytes stay bytes). Nothing here waits for
    the device. The generator must live on the images' device.
    """

    padding: int = 4
    flip: bool = True
    hole: int = 12
    fill: tuple[int, ...] = (125, 123, 114)

    def __call__(self, X: Tensor, generator: torch.Generator) -> Tensor:
        """Augment images of shape (n, channels, height, width)."""
        return augmented(X, self.draw(X, generator), self.padding, self.hole, self.fill)

    def draw(self, X: Tensor, generator: torch.Generator) -> Draws:
        """All random numbers of a batch, in one call."""
        n, _, height, width = X.shape
        u = torch.rand(5, n, generator=generator, device=X.device)
        choices = (2 * self.padding + 1, 2 * self.padding + 1, 2, height, width)
        # u < 1, but its product may round up to the number of choices.
        down, right, side, row, column = (
            (u_i * k).long().clamp_(max=k - 1) for u_i, k in zip(u, choices, strict=True)
        )
        return Draws(down, right, side.bool() if self.flip else side < 0, row, column)


def augmented(X: Tensor, draws: Draws, padding: int, hole: int, fill: tuple[int, ...]) -> Tensor:
    """Images after given changes; without randomness, so that it can be compiled and tested.

    Parameters
    ----------
    X : Tensor of shape (n, channels, height, width)
    draws : Draws
    padding, hole, fill
        As in :class:`CropFlipCutout`.
    """
    n, channels, height, width = X.shape
    i = torch.arange(height, device=X.device)
    j = torch.arange(width, device=X.device)
    # The mirror takes the crop's columns from right to left.
    across = torch.where(draws.flip[:, None], width - 1 - j, j)
    rows = _reflected(i + draws.down[:, None] - padding, height)
    columns = _reflected(across + draws.right[:, None] - padding, width)
    source = (rows[:, :, None] * width + columns[:, None, :]).view(n, 1, -1)
    out = X.reshape(n, channels, -1).gather(2, source.expand(-1, channels, -1)).view_as(X)
    if hole == 0:
        return out
    gone = _near(i, draws.row, hole)[:, :, None] & _near(j, draws.column, hole)[:, None, :]
    if len(fill) != channels:
        raise ValueError(f"fill needs a value for each of {channels} channels, not {len(fill)}")
    # Filled on the device: copying a list to it would wait for it.
    colour = torch.cat([X.new_full((1, 1, 1, 1), value) for value in fill], 1)
    return torch.where(gone[:, None], colour, out)


def _reflected(index: Tensor, n: int) -> Tensor:
    """Indices beyond the edge, mirrored at it without repeating it."""
    return (n - 1) - ((n - 1) - index.abs()).abs()


def _near(index: Tensor, middle: Tensor, hole: int) -> Tensor:
    """Whether an index lies in the hole: ``hole`` indices, of which ``middle`` is number hole // 2."""
    offset = index - middle[:, None] + hole // 2
    return (offset >= 0) & (offset < hole)
