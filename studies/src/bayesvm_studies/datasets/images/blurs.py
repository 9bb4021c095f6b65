"""Loss of detail. ``level`` counts severities from zero; none of this is random."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float32]

WIDTHS = (0.4, 0.6, 0.7, 0.8, 1.0)
RADII = (0.7, 0.9, 1.1, 1.5, 1.9)
GRIDS = (0.95, 0.9, 0.85, 0.75, 0.65)


def gaussian_blur(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Blur with a Gaussian, cut at four widths, one axis after the other."""
    reach = math.ceil(4 * WIDTHS[level])
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / WIDTHS[level]) ** 2)
    line = weights / weights.sum()
    return _convolve(_convolve(x, line[:, None]), line[None, :])


def defocus_blur(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Blur with a disk, the image of a point that is out of focus."""
    return _convolve(x, disk(RADII[level]))


def disk(radius: float, parts: int = 32) -> npt.NDArray[np.float64]:
    """Share of every pixel that a disk around the middle one covers, over their sum.

    Pixels are cut into ``parts`` x ``parts`` points, so that the edge is
    smooth and the radius need not be a whole number.
    """
    reach = math.ceil(radius - 0.5)
    side = 2 * reach + 1
    points = (np.arange(side * parts) + 0.5) / parts - side / 2
    inside = points[:, None] ** 2 + points[None, :] ** 2 <= radius**2
    shares = inside.reshape(side, parts, side, parts).mean((1, 3))
    return shares / shares.sum()


def pixelate(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Means over the cells of a coarser grid, enlarged again to squares."""
    rows, columns = (_coarsen(n, max(1, int(n * GRIDS[level]))) for n in x.shape[2:])
    return (rows @ x @ columns.T).astype(np.float32, copy=False)


def _coarsen(n: int, cells: int) -> _Floats:
    """The (n, n) matrix that gives every pixel the mean of the cell in which its centre is."""
    edges = np.linspace(0, n, cells + 1)
    left, right = np.arange(n), np.arange(n) + 1
    overlap = np.minimum(right, edges[1:, None]) - np.maximum(left, edges[:-1, None])
    means = np.clip(overlap, 0, None) * (cells / n)
    nearest = np.floor((np.arange(n) + 0.5) * cells / n).astype(np.int64)
    return means[nearest].astype(np.float32)


def _convolve(x: _Floats, kernel: npt.NDArray[np.float64]) -> _Floats:
    """Weighted sums over neighbours; beyond the edge the image is mirrored."""
    up, left = (n // 2 for n in kernel.shape)
    height, width = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)), mode="reflect")
    out = np.zeros_like(x)
    for (i, j), weight in np.ndenumerate(kernel):
        if weight > 0:
            out += np.float32(weight) * padded[:, :, i : i + height, j : j + width]
    return out
