"""Sources of rows in chunks: arrays on disk, Arrow data, batches."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bayesvm._fit.arrow import ArrowSource, is_arrow, is_reader, read_once
from bayesvm._fit.engine import Chunk, Source, changed, sort_of
from bayesvm._fit.validation import check_weights, checked_chunk, chunk_rows, labels_of

# --- Rows that can be read only once, written to a temporary file that can be read again.


class Spool:
    """A temporary file of chunks, which is deleted when it is no longer referenced.

    The folder is that of :mod:`tempfile` (the environment variable TMPDIR). The
    file has eight bytes for every number.

    Parameters
    ----------
    chunks : iterable of (Chunk, names of the columns or None)
        Read once, one at a time.
    """

    def __init__(self, chunks: Iterable[tuple[Chunk, tuple[str, ...] | None]]) -> None:
        handle, self._path = tempfile.mkstemp(prefix="bayesvm-", suffix=".rows")
        self._gone = weakref.finalize(self, _remove, self._path)
        self.n_features = 0
        self.feature_names: tuple[str, ...] | None = None
        self._n_parts = 0
        with os.fdopen(handle, "wb") as file:
            for chunk, names in chunks:
                if not self._n_parts:
                    self.n_features, self.feature_names = int(chunk.X.shape[1]), names
                size = chunk_rows(self.n_features)
                for start in range(0, len(chunk.y), size):
                    for values in (chunk.X, _plain(chunk.y), chunk.weight):
                        np.save(file, values[start : start + size], allow_pickle=False)
                    self._n_parts += 1
        if not self._n_parts:
            raise ValueError("there is no row to learn from: the iterator gave no batches")

    def chunks(self) -> Iterator[Chunk]:
        """The chunks in the order in which they were written."""
        with open(self._path, "rb") as file:
            for _ in range(self._n_parts):
                yield Chunk(*(np.load(file, allow_pickle=False) for _ in range(3)))


def _plain(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels with a fixed-size dtype; objects are converted to the type of their values."""
    if y.dtype.kind != "O":
        return y
    plain = np.asarray(y.tolist())
    if plain.dtype.kind == "O" or plain.tolist() != y.tolist():
        sorts = sorted({sort_of(label) for label in y.tolist()})
        raise ValueError(
            f"labels that are {' and '.join(sorts)} cannot be written to a file; give all as text"
        )
    return plain


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


Opener: TypeAlias = Callable[[], Iterable[Any]]


def is_chunked(X: Any, y: Any = None) -> bool:
    """Whether rows come in chunks rather than as an array or a data frame.

    True for paths, Arrow data with the name of a target column, iterators,
    functions that make them, and iterables of batches ``(X, y)``.
    """
    if isinstance(X, np.ndarray):
        return False
    if isinstance(X, (str, os.PathLike)) or callable(X) or _is_source(X) or isinstance(X, Iterator):
        return True
    if is_arrow(X):
        return isinstance(y, str)
    if y is not None or hasattr(X, "shape") or hasattr(X, "__array__") or not isinstance(X, Iterable):
        return False
    # A list of rows is an array; a list of anything else is meant as batches.
    return not isinstance(X, (list, tuple)) or len(X) == 0 or not _is_row(X[0])


def as_source(X: Any, y: Any = None, sample_weight: Any = None) -> Source:
    """A source of rows that can be read once per pass.

    Parameters
    ----------
    X : source of rows
        An array or memory map, never copied whole; a pyarrow Table, Dataset
        or RecordBatchReader; the path of a Parquet or Arrow file, or of a folder of them; an
        iterable of ``(X, y)`` or ``(X, y, weight)``; a function without
        arguments that gives one, with the same rows each time (what is compared:
        see ``BatchSource``). An iterator or a reader, which can be read only
        once, is written to a temporary file first.
    y : array-like, str or None
        Labels of an array; the name of the target column of Arrow data; None for
        batches, which bring their labels.
    sample_weight : array-like, str or None
        Likewise.

    Returns
    -------
    Source

    Raises
    ------
    ValueError
        If these do not go together.
    """
    if _is_source(X):
        source: Source = X
        return source
    if is_reader(X):
        return Spool(read_once(X, y, sample_weight))
    if isinstance(X, (str, os.PathLike)) or (is_arrow(X) and isinstance(y, str)):
        return ArrowSource.of(X, y, sample_weight)
    if not is_chunked(X, y):
        return ArraySource(X, y, sample_weight)
    if y is not None or sample_weight is not None:
        raise ValueError(
            "batches contain their labels and weights: give (X, y) or (X, y, weight) in every batch, and "
            "leave out y and sample_weight"
        )
    if callable(X):
        return BatchSource(X)
    if isinstance(X, Iterator):
        return Spool(_checked(X))
    return BatchSource(lambda: X)


def _is_source(X: Any) -> bool:
    return hasattr(X, "chunks") and hasattr(X, "n_features")


def _is_row(item: Any) -> bool:
    """Whether an item of a list is a sequence of single values."""
    if not isinstance(item, (tuple, list, np.ndarray)):
        return False
    return all(np.isscalar(value) or value is None or np.ndim(value) == 0 for value in item)


class ArraySource:
    """Rows of an array in memory or on disk, of a data frame, or of anything that can be sliced by rows.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    sample_weight : array-like of shape (n_rows,), number or None
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        if len(X.shape) != 2:
            raise ValueError(f"expected rows and columns, a 2-dimensional X; got the shape {tuple(X.shape)}")
        if y is None:
            raise ValueError(f"y must be given: the labels of the {X.shape[0]} rows")
        self._X = X
        self._y = labels_of("y", y, X.shape[0])
        self._weight = None if sample_weight is None else check_weights(sample_weight, X.shape[0])
        self.n_features = int(X.shape[1])
        self.feature_names = _names(X)

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def chunks(self) -> Iterator[Chunk]:
        """Slices of the rows."""
        size = chunk_rows(self.n_features)
        rows = getattr(self._X, "iloc", self._X)
        for start in range(0, len(self), size):
            part = slice(start, min(start + size, len(self)))
            weight = None if self._weight is None else self._weight[part]
            yield checked_chunk(rows[part], self._y[part], weight, f"rows from {start} on")


class BatchSource:
    """Batches that can be iterated over again and again.

    Parameters
    ----------
    opened : callable
        Gives an iterable of ``(X, y)`` or ``(X, y, weight)``, the same rows each time.
        Another number of rows is refused here; other values and labels are
        refused by sweeps over all rows, which compare a checksum with that of
        the sample's pass. Weights, and minibatches, are not compared.
    """

    def __init__(self, opened: Opener) -> None:
        self._opened = opened
        self._n_rows: int | None = None
        first = next(iter(_checked(opened())), None)
        if first is None:
            raise ValueError("there is no row to learn from: there are no batches")
        chunk, self.feature_names = first
        self.n_features = int(chunk.X.shape[1])

    def chunks(self) -> Iterator[Chunk]:
        """The batches, large ones in parts."""
        n_rows, size = 0, chunk_rows(self.n_features)
        for chunk, _ in _checked(self._opened()):
            n_rows += len(chunk.y)
            yield from _parts(chunk, size)
        if self._n_rows is None:
            self._n_rows = n_rows
        elif n_rows != self._n_rows:
            raise ValueError(changed(f"{self._n_rows} of them, then {n_rows}"))


def _parts(chunk: Chunk, size: int) -> Iterator[Chunk]:
    for start in range(0, len(chunk.y), size):
        yield Chunk(*(part[start : start + size] for part in chunk))


def _checked(batches: Iterable[Any]) -> Iterator[tuple[Chunk, tuple[str, ...] | None]]:
    """Every batch as a chunk, with the names of its columns; all have the same columns as the first."""
    n_features: int | None = None
    columns: tuple[Any, ...] | None = None
    for i, batch in enumerate(batches):
        where = f"batch {i}"
        if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
            what = f"{len(batch)} items" if isinstance(batch, (tuple, list)) else type(batch).__name__
            raise ValueError(f"{where} is {what}; every batch must be (X, y) or (X, y, weight)")
        chunk = checked_chunk(batch[0], batch[1], batch[2] if len(batch) == 3 else None, where)
        if n_features is None:
            n_features = chunk.X.shape[1]
        if chunk.X.shape[1] != n_features:
            raise ValueError(f"{where} has {chunk.X.shape[1]} columns, the first has {n_features}")
        own = _columns(batch[0])
        if columns is None:
            columns = own
        elif own is not None and own != columns:
            raise ValueError(
                f"{where} has other columns than the batches before it: {_difference(columns, own)}"
            )
        if len(chunk.y):
            yield chunk, _names(batch[0])


def _columns(X: Any) -> tuple[Any, ...] | None:
    """The columns of a data frame, with names of any type."""
    columns = getattr(X, "columns", None)
    return None if columns is None else tuple(columns)


def _names(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame, if all are strings."""
    names = _columns(X)
    return names if names is not None and all(isinstance(name, str) for name in names) else None


def _difference(expected: tuple[Any, ...], found: tuple[Any, ...]) -> str:
    """In words, the first place where two lists of columns of the same length differ."""
    place = next(i for i, (a, b) in enumerate(zip(expected, found, strict=True)) if a != b)
    same = set(expected) == set(found)
    what = f"column {place} is {found[place]!r} instead of {expected[place]!r}"
    return f"{what}; {'the order differs' if same else 'the names differ'}"
