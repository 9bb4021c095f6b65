"""One data set in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Dataset(NamedTuple):
    """Rows, labels, and what is to be known about them.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        Labels as numbers, as they stand in the file.
    feature_names : tuple of str
    completed : bool
        Whether rows were generated that are not in the file.
    note : str
        What every output that uses these rows must say; empty if nothing.
    """

    name: str
    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    feature_names: tuple[str, ...]
    completed: bool = False
    note: str = ""
