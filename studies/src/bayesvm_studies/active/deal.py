"""Which rows are labelled at first, which may be asked for, and which are tested on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm_studies.protocols import PAPER_SEED, Indices, split_rows


class Deal(NamedTuple):
    """Rows of a set.

    Attributes
    ----------
    pool : ndarray of int
        The labelled ones first, one of each class.
    n_first : int
        How many those are.
    test : ndarray of int
    """

    pool: Indices
    n_first: int
    test: Indices


def deal(y: npt.NDArray[Any], seed: int, pool_rows: int | None, test_rows: int | None) -> Deal:
    """The rows of one seed, the same for every policy and model.

    The split is that of the paper's protocol for structured data with another
    seed: stratified, a quarter for testing, classes of one row left out.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
    seed : int
    pool_rows, test_rows : int or None
        At most so many, chosen at random; None: all.
    """
    train, test = split_rows("paper", y, PAPER_SEED + seed)
    rng = np.random.default_rng(seed)
    train = rng.permutation(train)
    # The first of each class in random order is a random one of each class.
    _, first = np.unique(y[train], return_index=True)
    others = np.delete(train, first)
    pool = np.concatenate([train[first], others])
    most = len(pool) if pool_rows is None else max(pool_rows, len(first))
    return Deal(pool[:most], len(first), rng.permutation(test)[:test_rows])
