"""Images made worse, by kind and severity.

The idea, the kinds and most of the parameters are those of D. Hendrycks and
T. Dietterich (2019), *Benchmarking Neural Network Robustness to Common
Corruptions and Perturbations*, for images of 32 x 32 pixels. The code is our
own and takes no other library than numpy, so the images are not those of
their CIFAR-10-C files. With x in [0, 1] and the parameters of severity 1 to 5:

================== ====================================================== =================================
kind               what it does                                           parameters
================== ====================================================== =================================
``gaussian_noise`` x + s e, e standard normal                             s .04 .06 .08 .09 .10
``shot_noise``     Poisson(n x) / n                                       n 500 250 100 75 50
``impulse_noise``  a share p of the values becomes 0 or 1, evenly         p .01 .02 .03 .05 .07
``gaussian_blur``  Gaussian of width s pixels                             s .4 .6 .7 .8 1
``defocus_blur``   mean over a disk of radius r pixels (radii are ours)   r .7 .9 1.1 1.5 1.9
``fog``            (x + c F) m / (m + c), m the image's largest value, F   c .2 .5 .75 1 1.5
                   a smooth random field in [0, 1] whose octaves fall     d 3 3 2.5 2 1.75
                   by d from one to the next
``brightness``     c added to the value of hue, saturation, value         c .05 .1 .15 .2 .3
``contrast``       distance from the mean of each channel times c         c .75 .5 .4 .3 .15
``pixelate``       means over a coarser grid of c times the pixels        c .95 .9 .85 .75 .65
================== ====================================================== =================================

Results are cut to [0, 1] and rounded to bytes. In the functions of the single
kinds ``level`` counts severities from zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets.catalogue import DatasetError

_Floats = npt.NDArray[np.float32]
_Corruption = Callable[[_Floats, int, np.random.Generator], _Floats]

BLOCK = 1024
# Parameters of severity 1 to 5.
DEVIATIONS = (0.04, 0.06, 0.08, 0.09, 0.10)
PHOTONS = (500, 250, 100, 75, 50)
SHARES = (0.01, 0.02, 0.03, 0.05, 0.07)
WIDTHS = (0.4, 0.6, 0.7, 0.8, 1.0)
RADII = (0.7, 0.9, 1.1, 1.5, 1.9)
GRIDS = (0.95, 0.9, 0.85, 0.75, 0.65)
AMOUNTS = (0.2, 0.5, 0.75, 1.0, 1.5)
DECAYS = (3.0, 3.0, 2.5, 2.0, 1.75)
OCTAVES = (2, 3, 5, 9, 17)
BRIGHTER = (0.05, 0.1, 0.15, 0.2, 0.3)
CONTRASTS = (0.75, 0.5, 0.4, 0.3, 0.15)


def gaussian_noise(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Add normal noise."""
    return x + np.float32(DEVIATIONS[level]) * rng.standard_normal(x.shape, np.float32)


def shot_noise(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Count photons: a Poisson number whose mean is proportional to the value."""
    photons = PHOTONS[level]
    return rng.poisson(photons * x.astype(np.float64)).astype(np.float32) / np.float32(photons)


def impulse_noise(x: _Floats, level: int, rng: np.random.Generator) -> _Floats:
    """Set a share of the values to zero or one; what a lower severity sets, a higher one sets too."""
    u = rng.random(x.shape, np.float32)
    half = np.float32(SHARES[level] / 2)
    return np.where(u < half, np.float32(0), np.where(u >= 1 - half, np.float32(1), x))


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


# In a fixed order: a kind's place is part of its random numbers' seed.
_KINDS: dict[str, _Corruption] = {
    "gaussian_noise": gaussian_noise,
    "shot_noise": shot_noise,
    "impulse_noise": impulse_noise,
    "gaussian_blur": gaussian_blur,
    "defocus_blur": defocus_blur,
    "fog": fog,
    "brightness": brightness,
    "contrast": contrast,
    "pixelate": pixelate,
}
CORRUPTIONS = tuple(_KINDS)


def corrupt(X: npt.NDArray[np.uint8], kind: str, severity: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Corrupt images.

    The same arguments give the same images. The first n results are those of
    the first n images alone, and the random numbers do not depend on the
    severity, so that severities are compared on equal draws.

    Parameters
    ----------
    X : ndarray of shape (n, channels, height, width), uint8
    kind : str
        One of :data:`CORRUPTIONS`.
    severity : int
        1 to 5.
    seed : int, default=0
        Of the random kinds.

    Returns
    -------
    ndarray of the shape of X, uint8

    Examples
    --------
    >>> import numpy as np
    >>> X = np.full((1, 3, 32, 32), 100, np.uint8)
    >>> int(corrupt(X, "brightness", 4).max())  # 100 + .2 x 255
    151
    """
    if kind not in _KINDS:
        raise DatasetError(f"there is no corruption {kind!r}, only {', '.join(CORRUPTIONS)}")
    if severity not in range(1, 6):
        raise DatasetError(f"severity is 1 to 5, not {severity!r}")
    if X.dtype != np.uint8 or X.ndim != 4:
        raise DatasetError(
            f"images must be uint8 of shape (n, channels, height, width); given are {X.dtype} of shape "
            f"{X.shape}"
        )
    out = np.empty_like(X, order="C")
    for block in range(0, len(X), BLOCK):  # memory: twelve floats or so for every byte at work
        rng = np.random.default_rng([seed, CORRUPTIONS.index(kind), block // BLOCK])
        x = X[block : block + BLOCK].astype(np.float32) / np.float32(255)
        worse = _KINDS[kind](x, severity - 1, rng)
        out[block : block + BLOCK] = np.rint(np.clip(worse, 0, 1) * np.float32(255))
    return out
