"""Rows that can be read only once, written to a temporary file that can be read again."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.streaming.checks import chunk_rows
from bayesvm.streaming.chunks import Chunk
from bayesvm.streaming.label_kind import sort_of

__all__ = ["Spool"]


class Spool:
    """A temporary file of chunks; it goes when nobody needs it any more.

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
        """What was written, in its order."""
        with open(self._path, "rb") as file:
            for _ in range(self._n_parts):
                yield Chunk(*(np.load(file, allow_pickle=False) for _ in range(3)))


def _plain(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels of a type that has a fixed size: objects become what they are in truth."""
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
