"""From Dask arrays and data frames to tasks that give chunks of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import validate_data

from bayesvm._fit.engine import Chunk, bunched, joined_alike
from bayesvm._fit.validation import as_numbers, check_named, checked_chunk, chunk_rows

# --- What workers make of one block: chunks of rows, from numpy or pandas.


def joined_chunks(*groups: list[Chunk]) -> list[Chunk]:
    """The rows of several blocks as one chunk, or more where their labels differ in sort."""
    return joined_alike(chunk for group in groups for chunk in group)


def chunks_of(block: int, X: Any, y: Any, weight: Any) -> list[Chunk]:
    """Chunks of one block; columns that are named are taken out of X."""
    where = f"block {block}"
    named = [given for given in (y, weight) if isinstance(given, str)]
    y = X[y] if isinstance(y, str) else y
    weight = X[weight] if isinstance(weight, str) else weight
    X = X.drop(columns=named) if named else X
    _check_same_rows(X, y, f"{where} of y")
    if weight is not None and np.ndim(weight) > 0:
        _check_same_rows(X, weight, f"{where} of sample_weight")
    chunk = checked_chunk(X, _labels(y), None if weight is None else as_numbers(weight), where)
    rows = chunk_rows(chunk.X.shape[1])
    return [Chunk(*(part[at : at + rows] for part in chunk)) for at in range(0, len(chunk.y), rows)]


def _check_same_rows(X: Any, other: Any, what: str) -> None:
    if len(X) != len(other):
        raise ValueError(
            f"{what} has {len(other)} entries, and there are {len(X)} rows of X: they must be taken from the "
            "same data in the same order"
        )
    if hasattr(X, "index") and hasattr(other, "index") and not X.index.equals(other.index):
        raise ValueError(f"{what} has another index than X: they must be taken from the same data frame")


def _labels(y: Any) -> npt.NDArray[Any]:
    if not hasattr(y, "to_numpy"):
        return np.asarray(y)
    missing = y.isna().to_numpy()
    # Nullable integers would become objects; what is missing is refused as None.
    labels = np.asarray(y.to_numpy(dtype=None if missing.any() else getattr(y.dtype, "numpy_dtype", None)))
    if missing.any():
        labels = labels.astype(object)
        labels[missing] = None
    return labels


# --- The packages of the extra ``dask``, imported when they are used.


def dask() -> Any:
    """The package ``dask``."""
    return _package("dask")


def delayed_type() -> type:
    """What delayed objects are of; the module is hidden behind a function of the same name."""
    found: type = _package("dask.delayed").Delayed
    return found


def cloudpickle() -> Any:
    """The package ``cloudpickle``, which comes with Dask."""
    return _package("cloudpickle")


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError("DaskBayesianSVC needs Dask: pip install 'bayesvm[dask]'") from error


# Smaller blocks are joined: a task costs scheduler and worker about three milliseconds, as much as a sweep
# over a thousand rows. Many tasks are left, for many workers.
_FEWEST_ROWS, _ENOUGH_ROWS = 4096, 32_768
_ENOUGH_TASKS = 64


class Groups(NamedTuple):
    """Tasks that give lists of chunks.

    Attributes
    ----------
    tasks : list of Delayed
    n_features : int
    feature_names : tuple of str or None
        Names of the columns, if X is a data frame.
    """

    tasks: list[Any]
    n_features: int
    feature_names: tuple[str, ...] | None


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask's."""
    return bool(dask().is_dask_collection(X))


def is_frame(X: Any) -> bool:
    """Whether X is a Dask data frame."""
    return _is_collection(X) and dask().utils.is_dataframe_like(X)


def is_array(X: Any) -> bool:
    """Whether X is a Dask array."""
    return _is_collection(X) and hasattr(X, "numblocks")


def _is_collection(X: Any) -> bool:
    """Delayed objects are Dask's too, and have every attribute that is asked for."""
    return is_dask(X) and not isinstance(X, delayed_type())


def as_groups(X: Any, y: Any, sample_weight: Any) -> Groups:
    """Chunks of a Dask array or data frame with their labels and weights, nothing computed yet.

    Raises
    ------
    TypeError, ValueError
        If they are not numbers or do not match, as far as can be seen without reading them.
    """
    if is_frame(X):
        return _from_frame(X, y, sample_weight)
    if is_array(X):
        return _from_array(X, y, sample_weight)
    raise _not_rows(X)


def check_columns(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> None:
    """Refuse what does not go with a fitted estimator, as far as can be seen without reading X.

    Parameters
    ----------
    estimator : estimator
        Knows number and names of its features.
    X : Dask array or data frame
    y, sample_weight : str or anything else
        Columns of X that are not features; anything but a string is ignored.
    """
    if getattr(estimator, "_columns", None) is not None:
        raise ValueError(
            "this model was fitted to rows in memory with categories or gaps, and Dask collections hold "
            "numbers; give it rows in memory"
        )
    if is_frame(X):
        meta = X._meta.drop(columns=_named(X, y, sample_weight))
        _frame_columns(meta)
        validate_data(estimator, meta, reset=False, skip_check_array=True)
    elif is_array(X):
        _check_array(X)
        validate_data(estimator, np.empty((1, X.shape[1])), reset=False)
    else:
        raise _not_rows(X)


def _not_rows(X: Any) -> TypeError:
    return TypeError(
        f"X must be a Dask array or data frame; got {type(X).__name__}. dask.array.from_delayed and "
        "dask.dataframe.from_delayed make them of delayed objects"
    )


def _from_array(X: Any, y: Any, sample_weight: Any) -> Groups:
    _check_array(X)
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if isinstance(given, str):
            raise TypeError(
                f"{name}={given!r} names a column, and X is a Dask array, which has no names; give {name} as "
                "a Dask array"
            )
    sizes = X.chunks[0]
    blocks = X.rechunk({1: -1}).to_delayed()[:, 0].tolist()
    tasks = _chunk_tasks(blocks, y, sample_weight, sizes)
    return Groups(_enough_rows(tasks, sizes), X.shape[1], None)


def _check_array(X: Any) -> None:
    """Refuse a Dask array that is not a table of numbers."""
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and features; got {X.ndim}")
    if not isinstance(X._meta, np.ndarray) or X.dtype.kind not in "biuf":
        raise ValueError(
            f"X must hold real numbers in numpy blocks; its blocks are of type {type(X._meta).__name__}, "
            f"their dtype is {X.dtype}"
        )
    if math.isnan(X.shape[1]) or X.shape[1] == 0:
        raise ValueError(f"X must have a known number of features, at least one; its shape is {X.shape}")


def _from_frame(X: Any, y: Any, sample_weight: Any) -> Groups:
    named = _named(X, y, sample_weight)
    names = _frame_columns(X._meta.drop(columns=named))
    sizes = (math.nan,) * X.npartitions
    tasks = _chunk_tasks(X.to_delayed(), y, sample_weight, sizes)
    return Groups(tasks, len(X.columns) - len(named), names)


def _named(X: Any, y: Any, sample_weight: Any) -> list[str]:
    """Columns of a data frame that are not features; refuse names that it does not have."""
    roles = {"y": y, "sample_weight": sample_weight}
    named = {role: name for role, name in roles.items() if isinstance(name, str)}
    if named:
        check_named(named, list(X.columns))
    return sorted(set(named.values()))


def _frame_columns(meta: Any) -> tuple[str, ...] | None:
    """Names of the features of a data frame, None if they are not strings; refuse columns without numbers."""
    bad = [name for name, dtype in meta.dtypes.items() if getattr(dtype, "kind", "O") not in "biuf"]
    if bad:
        raise ValueError(f"the columns {bad[:10]} of X hold no numbers; encode them or leave them out")
    if not len(meta.columns):
        raise ValueError("X has no column left to learn from")
    strings = [isinstance(name, str) for name in meta.columns]
    return tuple(meta.columns) if all(strings) else None


def _chunk_tasks(blocks: list[Any], y: Any, sample_weight: Any, sizes: Sequence[float]) -> list[Any]:
    labels = _beside(y, "y", sizes)
    weights = [None] * len(sizes) if sample_weight is None else _beside(sample_weight, "sample_weight", sizes)
    task = dask().delayed(chunks_of, pure=True)
    parts = zip(blocks, labels, weights, strict=True)
    return [task(number, *part) for number, part in enumerate(parts)]


def _beside(given: Any, name: str, sizes: Sequence[float]) -> list[Any]:
    """Labels or weights cut like the blocks of X; the name of a column is left for the tasks to look up."""
    if given is None:
        raise ValueError(f"{name} is missing: DaskBayesianSVC needs a label for every row")
    if isinstance(given, str):
        return [given] * len(sizes)
    if is_dask(given):
        return _collection_beside(given, name, sizes)
    if np.ndim(given) == 0 and name == "sample_weight":
        return [float(given)] * len(sizes)
    values = np.asarray(given)
    if values.ndim != 1:
        raise ValueError(f"{name} must have one dimension; its shape is {values.shape}")
    if any(map(math.isnan, sizes)):
        raise ValueError(
            f"{name} is in memory, and how many rows each block of X has is not known: give {name} as a Dask "
            "array or series with the same blocks, or as the name of a column, or call compute_chunk_sizes() "
            "on a Dask array"
        )
    _check_length(name, len(values), sum(sizes))
    return np.split(values, np.cumsum(sizes).astype(int)[:-1])


def _collection_beside(given: Any, name: str, sizes: Sequence[float]) -> list[Any]:
    if given.ndim != 1:
        raise ValueError(f"{name} must have one dimension; it has {given.ndim}")
    if is_array(given):
        own = given.chunks[0]
        if not any(map(math.isnan, (*own, *sizes))):
            _check_length(name, sum(own), sum(sizes))
            given = given.rechunk((tuple(sizes),))
        blocks: list[Any] = given.to_delayed().tolist()
    else:
        blocks = given.to_delayed()
    if len(blocks) != len(sizes):
        raise ValueError(
            f"{name} has {len(blocks)} blocks and X has {len(sizes)}; without known sizes the blocks must "
            "correspond: take both from the same data frame, or call compute_chunk_sizes() on Dask arrays"
        )
    return blocks


def _check_length(name: str, given: float, wanted: float) -> None:
    if given != wanted:
        raise ValueError(f"{name} has {given:.0f} entries for {wanted:.0f} rows of X")


def _enough_rows(tasks: list[Any], sizes: Sequence[float]) -> list[Any]:
    """Neighbouring small blocks joined, where sizes are known."""
    if any(map(math.isnan, sizes)):
        return tasks
    fewest = min(_ENOUGH_ROWS, max(_FEWEST_ROWS, sum(sizes) / _ENOUGH_TASKS))
    join = dask().delayed(joined_chunks, pure=True)
    bunches = bunched(zip(tasks, sizes, strict=True), lambda task: task[1], fewest)
    return [bunch[0][0] if len(bunch) == 1 else join(*(task for task, _ in bunch)) for bunch in bunches]
