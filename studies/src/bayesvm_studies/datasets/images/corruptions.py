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

Results are cut to [0, 1] and rounded to bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets.errors import DatasetError
from bayesvm_studies.datasets.images import blurs, fog, noises, tones

_Floats = npt.NDArray[np.float32]
_Corruption = Callable[[_Floats, int, np.random.Generator], _Floats]

# In a fixed order: a kind's place is part of its random numbers' seed.
_KINDS: dict[str, _Corruption] = {
    "gaussian_noise": noises.gaussian_noise,
    "shot_noise": noises.shot_noise,
    "impulse_noise": noises.impulse_noise,
    "gaussian_blur": blurs.gaussian_blur,
    "defocus_blur": blurs.defocus_blur,
    "fog": fog.fog,
    "brightness": tones.brightness,
    "contrast": tones.contrast,
    "pixelate": blurs.pixelate,
}
CORRUPTIONS = tuple(_KINDS)

BLOCK = 1024


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
