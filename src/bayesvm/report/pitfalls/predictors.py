"""How well one column alone predicts the target, told on rows it was not learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas

__all__ = ["best_accuracy", "codes_of", "left_out_accuracy", "skill"]

IntArray = npt.NDArray[np.integer[Any]]
# A column that avoids fewer errors than this in bins is not worth growing trees for.
_WORTH_A_TREE = 0.6


def best_accuracy(column: pandas.Series, y: IntArray) -> float:
    """Accuracy of the better of two simple predictors from one column.

    The most frequent class among rows of the same value or bin; and, for
    numbers and dates of which that already says much, a small decision tree,
    which finds borders between bins.
    """
    codes, binned = codes_of(column)
    accuracy = left_out_accuracy(codes, y)
    if binned and skill(accuracy, np.bincount(y).max() / len(y)) >= _WORTH_A_TREE:
        accuracy = max(accuracy, _tree_accuracy(column, y))
    return accuracy


def codes_of(column: pandas.Series) -> tuple[IntArray, bool]:
    """Values as whole numbers, and whether they are bins of equal count.

    Numbers and dates of many values are binned, with about as many bins as
    there are rows in each. Missing is a value of its own.
    """
    import pandas as pd

    codes, values = pd.factorize(column)
    ordered = pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column)
    n_bins = max(4, int(np.sqrt(len(codes))))
    binned = bool(ordered and len(values) > n_bins)
    if binned:
        rank = _ranks(column)
        edges = np.quantile(rank[rank > 0], np.linspace(0.0, 1.0, n_bins + 1)[1:-1])
        codes = np.where(rank > 0, np.searchsorted(edges, rank), -1)
    return np.asarray(codes, dtype=np.int64), binned


def left_out_accuracy(codes: IntArray, y: IntArray) -> float:
    """Share of rows whose class is the most frequent one among the other rows of their code.

    Rows alone with their code are answered with the most frequent class of
    all; ties count as errors.
    """
    n_classes = int(y.max()) + 1
    key, size = np.unique((codes - codes.min()) * n_classes + y, return_counts=True)
    code, label = key // n_classes, key % n_classes
    # Keys are sorted: the pairs of one code lie beside one another.
    start = np.flatnonzero(np.diff(code, prepend=-1))
    group = np.repeat(np.arange(len(start)), np.diff(start, append=len(code)))
    largest = size == np.maximum.reduceat(size, start)[group]
    alone_on_top = np.add.reduceat(largest.astype(np.int64), start)[group] == 1
    runner_up = np.maximum.reduceat(np.where(largest, 0, size), start)[group]
    wins = largest & alone_on_top & (size - 1 > runner_up)
    single = np.add.reduceat(size, start)[group] == 1
    right = np.where(single, label == np.bincount(y).argmax(), wins)
    return float(size[right].sum() / len(y))


def skill(accuracy: float, baseline: float) -> float:
    """Share of the errors of always answering the most frequent class that are avoided."""
    return (accuracy - baseline) / (1.0 - baseline) if baseline < 1.0 else 0.0


def _tree_accuracy(column: pandas.Series, y: IntArray) -> float:
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=16 + 2 * int(y.max()), random_state=0)
    folds = KFold(5, shuffle=True, random_state=0)
    return float((cross_val_predict(tree, _ranks(column)[:, None], y, cv=folds) == y).mean())


def _ranks(column: pandas.Series) -> npt.NDArray[np.floating]:
    """Ranks from one; zero where a value is missing."""
    return column.rank(method="dense").fillna(0).to_numpy(dtype=np.float64)
