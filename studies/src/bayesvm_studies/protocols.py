"""How a set is split: the paper's one split, and the ten folds of Olson et al. (2018).

The paper does not say how it split; a stratified split with a quarter for
testing stands in, with one seed for all sets. Classes with a single row
cannot be on both sides and are left out there.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

PROTOCOLS = ("paper", "olson")
PAPER_SEED = 2018
PAPER_TEST_SHARE = 0.25
OLSON_FOLDS = 10
OLSON_SEED = 90483257

Indices = npt.NDArray[np.intp]


def splits_of(protocol: str, n_folds: int | None = None) -> list[int]:
    """Numbers of the splits: folds of Olson's protocol, the seed of the paper's.

    Parameters
    ----------
    protocol : {"paper", "olson"}
    n_folds : int or None
        Only the first folds; None: all ten.
    """
    if protocol == "paper":
        return [PAPER_SEED]
    if protocol != "olson":
        raise ValueError(f"protocol {protocol!r} is not known; give one of {', '.join(PROTOCOLS)}")
    if n_folds is not None and not 1 <= n_folds <= OLSON_FOLDS:
        raise ValueError(f"folds {n_folds} is not valid; give a number from 1 to {OLSON_FOLDS}")
    return list(range(OLSON_FOLDS if n_folds is None else n_folds))


def split_rows(protocol: str, y: npt.NDArray[Any], split: int) -> tuple[Indices, Indices]:
    """Rows to train on and rows to test on.

    Parameters
    ----------
    protocol : {"paper", "olson"}
    y : ndarray of shape (n_rows,)
    split : int
        One of :func:`splits_of`.
    """
    from sklearn.model_selection import StratifiedKFold, train_test_split

    if protocol == "paper":
        _, index, counts = np.unique(y, return_inverse=True, return_counts=True)
        kept = np.flatnonzero(counts[index] > 1)
        train, test = train_test_split(kept, test_size=PAPER_TEST_SHARE, stratify=y[kept], random_state=split)
        return np.sort(train), np.sort(test)
    folds = StratifiedKFold(OLSON_FOLDS, shuffle=True, random_state=OLSON_SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with fewer rows than folds: so it was in 2018
        train, test = list(folds.split(np.zeros((len(y), 1)), y))[split]
    return train, test
