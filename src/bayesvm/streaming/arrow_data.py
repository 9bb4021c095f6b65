"""Arrow data sets: opened from paths and tables, checked file by file, scanned in bounded memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["check_every_file", "data_columns", "opened", "read", "scanned"]

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
        If the files are none of its kind, or do not go together.
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

    What folders are named like, ``name=value``, becomes a column.
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
