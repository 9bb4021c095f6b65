"""Arrow tables and data sets, and Parquet files, as sources of rows."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm._fit.engine import Chunk
from bayesvm._fit.validation import check_column, check_labels, check_weights, chunk_rows

# --- Arrow data sets: opened from paths and tables, checked file by file, scanned in bounded memory.


_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
# Bytes of a column that are read at once.
_BUFFER = 2**16


def opened(X: Any) -> Any:
    """A pyarrow data set from a table, a data set, or the path of a file or a folder.

    Raises
    ------
    ImportError
        If pyarrow is not there.
    ValueError
        If the files are of no supported kind, or do not match each other.
    """
    try:
        import pyarrow.dataset as ds
    except ModuleNotFoundError as error:
        raise ImportError(
            "Arrow data and Parquet files need pyarrow: pip install 'bayesvm[arrow]'"
        ) from error
    if isinstance(X, ds.Dataset):
        return X
    if not isinstance(X, (str, os.PathLike)):
        return ds.dataset(X if hasattr(X, "to_batches") else [X])
    path = Path(X)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r} to read rows from")
    return _folder(path) if path.is_dir() else _read([path], _format(path), None)


def _format(path: Path) -> str:
    if path.suffix.lower() not in _FORMATS:
        raise ValueError(
            f"{str(path)!r} is not named like a Parquet or Arrow file ({', '.join(_FORMATS)}); for text "
            "files give a pyarrow.dataset.dataset(path, format='csv')"
        )
    return _FORMATS[path.suffix.lower()]


def _folder(folder: Path) -> Any:
    """The files of a folder in the order of their names; other files, and hidden ones, are left alone.

    Folders named ``name=value`` become a column.
    """
    found = sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in _FORMATS
        and file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    )
    kinds = {_format(file) for file in found}
    if len(kinds) != 1:
        what = "both Parquet and Arrow files" if kinds else "no file named like .parquet or .arrow"
        raise ValueError(f"the folder {str(folder)!r} holds {what}; one kind is needed")
    return _read(found, kinds.pop(), folder)


def _read(files: Sequence[Path], kind: str, folder: Path | None) -> Any:
    import pyarrow
    import pyarrow.dataset as ds

    partitioned = {} if folder is None else {"partitioning": "hive", "partition_base_dir": str(folder)}
    try:
        data = ds.dataset([str(file) for file in files], format=kind, **partitioned)
        if len(files) == 1:
            return data
        # Where the first file has whole numbers, or lacks a column, a later one may have others.
        schemas = [data.schema, *(fragment.physical_schema for fragment in data.get_fragments())]
        schema = pyarrow.unify_schemas(schemas, promote_options="permissive")
        return ds.dataset([str(file) for file in files], schema=schema, format=kind, **partitioned)
    except pyarrow.ArrowInvalid as error:
        where = str(files[0] if folder is None else folder)
        raise ValueError(f"{where!r} cannot be read as {kind} data: {error}") from error
    except pyarrow.ArrowTypeError as error:
        raise ValueError(f"the files in {str(folder)!r} have columns of different types: {error}") from error


def data_columns(schema: Any) -> list[str]:
    """The columns without an index that pandas wrote beside them and that has no name."""
    said = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    nameless = {c.get("field_name") for c in said.get("columns", []) if c.get("name") is None}
    index = {i for i in said.get("index_columns", []) if isinstance(i, str)} & nameless
    return [name for name in schema.names if name not in index]


def check_every_file(data: Any, columns: Sequence[str]) -> None:
    """Refuse a data set if one of its files lacks a column: its rows would have no value there.

    Raises
    ------
    ValueError
        With the names of the column and of the file.
    """
    import pyarrow.dataset as ds

    for fragment in data.get_fragments():
        if not hasattr(fragment, "path"):
            continue
        there = {*fragment.physical_schema.names, *ds.get_partition_keys(fragment.partition_expression)}
        lacking = [name for name in columns if name not in there]
        if lacking:
            raise ValueError(
                f"the file {fragment.path!r} has no column {lacking[0]!r}, which other files have; "
                "every file must have all columns"
            )


def read(data: Any, columns: Sequence[str], rows: int) -> Iterator[Any]:
    """Record batches of files that ``opened`` found, in order, of at most so many rows.

    Parquet files are read page by page, so that their row groups, which are
    often as large as memory, are never held.
    """
    import pyarrow
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    if not isinstance(data.format, ds.ParquetFileFormat):
        yield from scanned(data, columns, rows)
        return
    for fragment in data.get_fragments():
        named = ds.get_partition_keys(fragment.partition_expression)
        inside = [name for name in columns if name not in named]
        with pq.ParquetFile(fragment.path, pre_buffer=False, buffer_size=_BUFFER) as file:
            for batch in file.iter_batches(rows, columns=inside, use_threads=False):
                beside = [pyarrow.repeat(value, batch.num_rows) for value in named.values()]
                names = [*batch.schema.names, *named]
                yield pyarrow.RecordBatch.from_arrays([*batch.columns, *beside], names)


def scanned(data: Any, columns: Sequence[str], rows: int) -> Iterator[Any]:
    """Record batches of any data set, in order, of at most so many rows; some row groups are held at a time.

    By default Arrow reads as much ahead as it can: the whole file at once,
    and then decodes it in threads faster than rows are used. Whoever
    computes reads the next chunk meanwhile, which is enough.
    """
    options = _without_pre_buffer(data)
    scan = {} if options is None else {"fragment_scan_options": options}
    for batch in data.to_batches(
        columns=list(columns),
        batch_size=rows,
        batch_readahead=0,
        fragment_readahead=1,
        use_threads=False,
        **scan,
    ):
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _without_pre_buffer(data: Any) -> Any:
    """Options for scanning Parquet; None for other data, or where someone else has chosen them."""
    import pyarrow.dataset as ds

    parts = getattr(data, "children", None) or [data]
    plain = ds.ParquetFileFormat().default_fragment_scan_options
    for part in parts:
        form = getattr(part, "format", None)
        if not isinstance(form, ds.ParquetFileFormat) or form.default_fragment_scan_options != plain:
            return None
    return ds.ParquetFragmentScanOptions(pre_buffer=False)


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
        return Chunk(X, y, check_weights(_floats(batch.column(self.weight)), len(y), where))


def read_once(reader: Any, target: Any, weight: Any) -> Iterator[tuple[Chunk, tuple[str, ...]]]:
    """Chunks of a RecordBatchReader, with the names of its columns, which are checked first."""
    source = ArrowSource.of(reader.schema.empty_table(), target, weight)
    return ((chunk, source.feature_names) for chunk in source.made_of(reader))


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
