"""A model that keeps up with labels as they come, and the same model again from a record of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from bayesvm.active.pool import part

__all__ = ["Group", "Refitted", "described", "extended", "rebuilt", "refits_incrementally"]

IntArray = npt.NDArray[np.int64]
_PLAIN = (bool, int, float, str, type(None))


class Group(NamedTuple):
    """Labels that came together.

    Attributes
    ----------
    rows : list of int
        Positions in the pool.
    labels : list
        Plain values, one per row.
    """

    rows: list[int]
    labels: list[Any]


class Refitted(NamedTuple):
    """A fitted model and where its chain of updates began.

    Attributes
    ----------
    model : classifier or None
        None while fewer than two classes are known.
    learned_from : int
        Number of groups that the last fit from scratch saw, kernel included.
        A fit to these, then one update per later group, gives the same model
        to the bit.
    """

    model: Any
    learned_from: int


def described(estimator: Any) -> str:
    """The kind of an estimator and those of its parameters that are plain values: the same in every process.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> described(KNeighborsClassifier(3, metric=max)).startswith("KNeighborsClassifier(algorithm='auto', ")
    True
    """
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    plain = [f"{name}={value!r}" for name, value in sorted(params.items()) if isinstance(value, _PLAIN)]
    return f"{type(estimator).__name__}({', '.join(plain)})"


def refits_incrementally(estimator: Any) -> bool:
    """Whether an estimator is one of ours with ``partial_fit``, which remembers rows and a kernel."""
    return hasattr(estimator, "partial_fit") and hasattr(type(estimator), "predict_latent")


def extended(
    estimator: Any,
    pool: Any,
    groups: Sequence[Group],
    classes: Sequence[Any],
    before: Refitted,
    incremental: bool,
) -> Refitted:
    """The model after the last of the groups, from the one before it.

    Parameters
    ----------
    estimator : classifier
        Never fitted itself.
    pool : array or data frame
    groups : sequence of Group
        All so far, the new one last.
    classes : sequence
        All labels known by now.
    before : Refitted
        Its model is updated in place where that is possible.
    incremental : bool
    """
    model = before.model
    known = model is not None and len(model.classes_) == len(classes)
    if not (incremental and known and before.learned_from):
        return _from_scratch(estimator, pool, groups, classes, incremental)
    learned_from = model.memory_.learned_from
    X, y = _rows_and_labels(pool, groups[-1:])
    model.partial_fit(X, y)
    # The kernel is learned anew from all rows when they have grown enough.
    anew = model.memory_.learned_from != learned_from
    return Refitted(model, len(groups) if anew else before.learned_from)


def rebuilt(
    estimator: Any,
    pool: Any,
    groups: Sequence[Group],
    classes: Sequence[Any],
    learned_from: int,
    incremental: bool,
) -> Refitted:
    """The model after all groups, as a chain of updates that began with ``learned_from`` of them had it."""
    first = learned_from if incremental and learned_from else len(groups)
    state = _from_scratch(estimator, pool, groups[:first], classes, incremental)
    for n in range(first + 1, len(groups) + 1):
        state = extended(estimator, pool, groups[:n], classes, state, incremental)
    return state


def _from_scratch(
    estimator: Any, pool: Any, groups: Sequence[Group], classes: Sequence[Any], incremental: bool
) -> Refitted:
    X, y = _rows_and_labels(pool, groups)
    if not len(y) or len(classes) < 2:
        return Refitted(None, 0)
    model = clone(estimator)
    if incremental:
        model.partial_fit(X, y, classes=np.asarray(classes))
    elif np.unique(y).size < 2:  # most classifiers refuse a single class
        return Refitted(None, 0)
    else:
        model.fit(X, y)
    return Refitted(model, len(groups))


def _rows_and_labels(pool: Any, groups: Sequence[Group]) -> tuple[Any, npt.NDArray[Any]]:
    rows = np.array([row for group in groups for row in group.rows], dtype=np.int64)
    return part(pool, rows), np.array([label for group in groups for label in group.labels])
