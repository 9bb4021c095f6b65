"""Chunks of rows, and what can be asked of them: sums."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

# --- What sort of labels rows have: labels of two sorts cannot be put in order together.


_OF_TYPES = {**dict.fromkeys("biuf", "numbers"), "U": "texts", "S": "bytes", "M": "dates"}


def label_kind(y: npt.NDArray[Any]) -> str | None:
    """The sort of labels, that of the first where they are objects; None if there are none."""
    if not y.size:
        return None
    return sort_of(y.flat[0]) if y.dtype.kind == "O" else _OF_TYPES.get(y.dtype.kind, str(y.dtype))


def sort_of(label: Any) -> str:
    """The sort of one label: numbers, texts, or the name of its type."""
    if isinstance(label, str):
        return "texts"
    if isinstance(label, (numbers.Number, np.bool_)):
        return "numbers"
    return "bytes" if isinstance(label, bytes) else type(label).__name__


FloatArray = npt.NDArray[np.float64]


class Chunk(NamedTuple):
    """Consecutive rows as they were given.

    Attributes
    ----------
    X : ndarray of shape (n, D)
        In double precision, in the units of the data. May hold NaN: the first pass looks.
    y : ndarray of shape (n,)
        Labels as they were given.
    weight : ndarray of shape (n,)
        Sample weights, ones where none were given.
    """

    X: FloatArray
    y: npt.NDArray[Any]
    weight: FloatArray


class Sums(Protocol):
    """What a pass makes of rows; the sums of two groups of rows can be merged."""

    def plus(self, other: Self) -> Self:
        """The sums over the rows of both, these coming first; ``self`` may be changed, ``other`` not."""
        ...


S = TypeVar("S", bound=Sums)
T = TypeVar("T")
Pass: TypeAlias = Callable[[Chunk], S]
"""What is computed from every chunk: a frozen dataclass that can be pickled, and all that is sent."""


class Source(Protocol):
    """Rows that can be read again and again, a chunk at a time.

    Attributes
    ----------
    n_features : int
    feature_names : tuple of str or None
        Names of the columns, if they have any.
    """

    @property
    def n_features(self) -> int: ...

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...

    def chunks(self) -> Iterator[Chunk]:
        """All rows, from the first, in the same order every time."""
        ...


def changed(what: str) -> str:
    """The message where rows differ between two passes."""
    return (
        f"the rows changed between two passes: {what}; each pass must see the same rows. An iterator, "
        "which is read only once, is written to a temporary file instead"
    )


def joined(chunks: list[Chunk]) -> Chunk:
    """One chunk of the rows of all."""
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(*(np.concatenate(part) for part in zip(*chunks, strict=True)))


def joined_alike(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The same rows in as few chunks as the sorts of labels allow.

    numpy would make texts of numbers beside them; the first pass finds and
    refuses what stays apart here.
    """
    return [joined(list(alike)) for _, alike in groupby(chunks, lambda chunk: label_kind(chunk.y))]


def bunched(items: Iterable[T], rows: Callable[[T], float], fewest: float) -> Iterator[list[T]]:
    """Neighbouring items together until they have some rows: calls cost more than rows there."""
    bunch: list[T] = []
    for item in items:
        bunch.append(item)
        if sum(map(rows, bunch)) >= fewest:
            yield bunch
            bunch = []
    if bunch:
        yield bunch


def regrouped(chunks: Iterable[Chunk], fewest: int) -> Iterator[Chunk]:
    """The same rows, with small chunks joined."""
    for bunch in bunched(chunks, lambda chunk: len(chunk.y), fewest):
        yield from joined_alike(bunch)


# --- What every chunk must be, wherever its rows come from.


# Rows of a chunk, and numbers in it, at most: large enough for products, small beside any memory.
_CHUNK_ROWS = 32_768
_CHUNK_NUMBERS = 2_097_152


def chunk_rows(n_features: int) -> int:
    """Rows of a chunk with that many features."""
    return max(1, min(_CHUNK_ROWS, _CHUNK_NUMBERS // max(1, n_features)))


def checked_chunk(X: Any, y: Any, weight: Any, where: str) -> Chunk:
    """Arrays of the right types, as many labels and weights as rows."""
    if hasattr(X, "toarray"):
        raise TypeError(
            f"{where}: X is sparse, and dense numbers are needed; use X.toarray() on some rows at a time"
        )
    try:
        rows = np.asarray(as_numbers(X))
        if rows.dtype.kind == "c":
            raise ValueError("complex numbers are not supported")
        if rows.ndim == 2:
            rows = np.ascontiguousarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: X must hold numbers; {error}") from error
    if rows.ndim != 2:
        raise ValueError(f"{where}: expected rows and columns; got the shape {rows.shape}")
    if not rows.shape[1]:
        raise ValueError(f"{where}: X has 0 feature(s); at least one column is needed")
    labels = labels_of(f"{where}: y", y, rows.shape[0])
    check_labels(labels, where)
    return Chunk(
        rows,
        labels,
        np.ones(rows.shape[0]) if weight is None else checked_weights(weight, rows.shape[0], where),
    )


def as_numbers(given: Any) -> Any:
    """Values of a pandas object in double precision; what is missing becomes NaN, and is refused as such."""
    if not hasattr(given, "iloc"):
        return given
    kinds = [getattr(kind, "kind", "O") for kind in np.ravel(getattr(given, "dtypes", []))]
    return given if "c" in kinds else given.to_numpy(dtype=np.float64, na_value=np.nan)


def labels_of(name: str, values: Any, n_rows: int) -> npt.NDArray[Any]:
    """One label for every row; a single column counts as that."""
    found = np.asarray(values)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (n_rows,):
        raise ValueError(f"{name} has the shape {found.shape}; expected one label for each of {n_rows} rows")
    return found


def check_labels(y: npt.NDArray[Any], where: str) -> None:
    """Refuse rows without a label: None, or not a number."""
    if y.dtype.kind == "O":
        missing = np.asarray([label is None or label != label for label in y.tolist()], dtype=np.bool_)
    elif y.dtype.kind == "f":
        missing = np.isnan(y)
    else:
        return
    if missing.any():
        raise ValueError(f"{where}: row {int(np.argmax(missing))} of these has no label; leave such rows out")


def checked_weights(sample_weight: Any, n_rows: int, where: str = "sample_weight") -> FloatArray:
    """Weights in double precision; a number stands for all rows."""
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"{where}: weights of the shape {weight.shape} for {n_rows} rows")
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~(np.isfinite(weight) & (weight >= 0))][0]
        raise ValueError(f"{where}: weights must be finite and not negative; one given is {bad:g}")
    return weight
