"""Random changes of training images, on the device where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


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
