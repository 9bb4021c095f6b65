"""Arrow tables and data sets, and Parquet files, as sources of rows."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.streaming.arrow_data import check_every_file, data_columns, opened, read, scanned
from bayesvm.streaming.checks import check_labels, checked_weights, chunk_rows
from bayesvm.streaming.chunks import Chunk

__all__ = ["ArrowSource", "check_column", "is_arrow", "is_reader", "read_once"]


def is_arrow(X: Any) -> bool:
    """Whether X is a table, a batch or a data set of pyarrow; never imports it."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None:
        return False
    dataset = sys.modules.get("pyarrow.dataset")
    kinds = (pyarrow.Table, pyarrow.RecordBatch) + (() if dataset is None else (dataset.Dataset,))
    return isinstance(X, kinds)


def is_reader(X: Any) -> bool:
    """Whether X gives record batches of pyarrow, and only once; never imports it."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(X, pyarrow.RecordBatchReader)


@dataclass(frozen=True)
class ArrowSource:
    """Rows of a data set whose columns are numbers, but for the target.

    Attributes
    ----------
    data : pyarrow.dataset.Dataset
    target : str
        The column of labels.
    weight : str or None
        The column of sample weights.
    feature_names : tuple of str
        All other columns, in their order, without an index that pandas wrote and that has no name.
    from_path : bool
        Whether the data set is nothing but the files of a path.
    """

    data: Any
    target: str
    weight: str | None
    feature_names: tuple[str, ...]
    from_path: bool

    @classmethod
    def of(cls, X: Any, target: Any, weight: Any = None) -> ArrowSource:
        """A source from a pyarrow object or a path.

        Raises
        ------
        ValueError
            If a named column is not there, or another one does not hold numbers.
        """
        data = opened(X)
        names = data.schema.names
        for role, name in (("y", target), ("sample_weight", weight)):
            if role == "y" or name is not None:
                check_column(role, name, names)
        features = tuple(name for name in data_columns(data.schema) if name not in (target, weight))
        doubled = [name for name in names if names.count(name) > 1]
        if doubled:
            raise ValueError(f"the data have more than one column named {doubled[0]!r}; rename or drop one")
        if not features:
            raise ValueError(f"the data have no column besides {[n for n in (target, weight) if n]}")
        for name in features if weight is None else (*features, weight):
            _check_numbers(name, data.schema.field(name).type)
        source = cls(data, target, weight, features, isinstance(X, (str, os.PathLike)))
        check_every_file(data, source.columns)
        return source

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def columns(self) -> list[str]:
        """All that is read."""
        return [*self.feature_names, self.target] + ([] if self.weight is None else [self.weight])

    def chunks(self) -> Iterator[Chunk]:
        """The batches of the data set, in order; missing numbers are NaN."""
        batches = read if self.from_path else scanned
        return self.made_of(batches(self.data, self.columns, chunk_rows(self.n_features)))

    def made_of(self, batches: Iterable[Any]) -> Iterator[Chunk]:
        """Chunks of record batches with these columns."""
        start = 0
        for batch in batches:
            yield self._chunk(batch, start)
            start += batch.num_rows

    def _chunk(self, batch: Any, start: int) -> Chunk:
        X = np.empty((batch.num_rows, self.n_features))
        for d, name in enumerate(self.feature_names):
            X[:, d] = _floats(batch.column(name))
        where = f"rows from {start} on"
        labels = batch.column(self.target)
        if labels.null_count:
            row = start + int(np.argmax(labels.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"row {row} has no label in {self.target!r}; leave such rows out")
        y = _labels(labels)
        check_labels(y, where)
        if self.weight is None:
            return Chunk(X, y, np.ones(len(y)))
        return Chunk(X, y, checked_weights(_floats(batch.column(self.weight)), len(y), where))


def read_once(reader: Any, target: Any, weight: Any) -> Iterator[tuple[Chunk, tuple[str, ...]]]:
    """Chunks of a RecordBatchReader, with the names of its columns, which are checked first."""
    source = ArrowSource.of(reader.schema.empty_table(), target, weight)
    return ((chunk, source.feature_names) for chunk in source.made_of(reader))


def check_column(role: str, name: Any, names: list[str]) -> None:
    """Refuse what is not the name of a column, and say which was perhaps meant."""
    if not isinstance(name, str):
        what = "nothing" if name is None else type(name).__name__
        raise ValueError(f"with Arrow data {role} must be the name of a column; got {what}")
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean {close[0]!r}?" if close else f"there are {names[:10]}"
        raise ValueError(f"{role}={name!r} is not a column of the data; {advice}")


def _check_numbers(name: str, kind: Any) -> None:
    import pyarrow.types as types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if not any(test(kind) for test in tests):
        raise ValueError(
            f"column {name!r} holds {kind}, not numbers; turn it into numbers or leave it out "
            "(bayesvm.tables fits tables of words and dates)"
        )


def _floats(column: Any) -> npt.NDArray[np.float64]:
    """Numbers in double precision, NaN where they are missing."""
    import pyarrow
    import pyarrow.types as types

    if types.is_boolean(column.type):
        column = column.cast(pyarrow.uint8())
    if not types.is_floating(column.type):
        column = column.cast(pyarrow.float64(), safe=False)
    values: npt.NDArray[np.float64] = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return values


def _labels(column: Any) -> npt.NDArray[Any]:
    import pyarrow.types as types

    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if not types.is_dictionary(kind):
        column = column.dictionary_encode()
    words = np.asarray(column.dictionary.to_pylist())
    return words[np.asarray(column.indices.to_numpy(zero_copy_only=False))]
