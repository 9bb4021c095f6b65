"""A set of images in memory, split as it was published."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class ImageSet(NamedTuple):
    """Training and test images with their labels.

    Attributes
    ----------
    name : str
    train_X : ndarray of shape (n_train, channels, height, width), uint8
        Channels come before rows and columns, for every set; colours are red,
        green, blue.
    train_y : ndarray of shape (n_train,), int64
        Index of the class.
    test_X, test_y : ndarray
        The same for the test images.
    classes : tuple of str
        Names of the classes, by index.
    note : str
        What every output that uses these images must say; empty if they are
        the published ones.
    """

    name: str
    train_X: npt.NDArray[np.uint8]
    train_y: npt.NDArray[np.int64]
    test_X: npt.NDArray[np.uint8]
    test_y: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    note: str = ""

    def digest(self) -> str:
        """SHA-256 of images and labels, whatever files they came from."""
        sha = hashlib.sha256()
        for part in (self.train_X, self.train_y, self.test_X, self.test_y):
            # Little-endian on every machine, and the shape: equal bytes may be other images.
            little = np.ascontiguousarray(part, part.dtype.newbyteorder("<"))
            sha.update(repr(part.shape).encode())
            sha.update(little.data)
        return sha.hexdigest()
