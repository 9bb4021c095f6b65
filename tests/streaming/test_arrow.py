"""Parquet files and folders: in bounded memory, all of their columns, and what is wrong with one by name."""

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from bayesvm._fit import validation
from bayesvm._fit.engine import joined, read_ahead
from bayesvm._fit.sources import as_source

N, D = 160_000, 16


def large(folder, row_group_size):
    """A file of 20 MB."""
    rng = np.random.default_rng(0)
    table = pa.table({**{f"x{d}": rng.random(N) for d in range(D)}, "y": rng.integers(0, 2, N)})
    pq.write_table(table, folder / "large.parquet", row_group_size=row_group_size, use_dictionary=False)
    return folder / "large.parquet"


@pytest.mark.parametrize(
    ("given", "row_group_size"),
    [
        (lambda path: path, 4000),
        (lambda path: path, N),  # page by page
        (lambda path: path.parent, N),
        (lambda path: ds.dataset(path), 4000),
        (lambda path: ds.dataset([ds.dataset(path)]), 4000),
    ],
    ids=["path", "path to one group", "folder", "data set", "union"],
)
def test_files_are_never_in_memory(tmp_path, monkeypatch, given, row_group_size):
    monkeypatch.setattr(validation, "_CHUNK_ROWS", 8000)
    path = large(tmp_path, row_group_size)
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    source = as_source(given(path), "y")
    for _ in range(2):
        most = n_rows = 0
        for chunk in read_ahead(source.chunks()):
            time.sleep(0.005)  # rows are used more slowly than they are read
            most = max(most, pool.bytes_allocated() - before)
            n_rows += len(chunk.y)
        assert n_rows == N
        assert most < 0.6 * path.stat().st_size


def write(folder, **tables):
    for name, columns in tables.items():
        path = folder / f"{name.replace('__', '/').replace('_', '=')}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)
    return folder


def rows(source):
    return joined(list(source.chunks()))


def test_folders_named_by_values_are_columns(tmp_path):
    write(tmp_path, year_1__a={"x": [1.0], "y": ["p"]}, year_2__a={"x": [2.0, 3.0], "y": ["q", "p"]})
    source = as_source(tmp_path, "y")
    assert source.feature_names == ("x", "year")
    assert rows(source).X.tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 2.0]]


def test_folders_named_by_words_can_be_labels_and_no_features(tmp_path):
    write(tmp_path, kind_p__a={"x": [1.0], "y": [0]}, kind_q__a={"x": [2.0], "y": [1]})
    assert rows(as_source(tmp_path, "kind")).y.tolist() == ["p", "q"]
    with pytest.raises(ValueError, match="column 'kind' holds string, not numbers"):
        as_source(tmp_path, "y")


def test_files_of_other_kinds_are_left_alone(tmp_path):
    write(tmp_path, a={"x": [1.0], "y": [0]})
    for name in ("README.txt", "_SUCCESS", "_temporary/b.parquet", ".c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("no rows")
    assert rows(as_source(tmp_path, "y")).X.tolist() == [[1.0]]


def test_a_column_that_one_file_lacks_is_named_with_the_file(tmp_path):
    first, second = {"x": [1.0], "z": [1], "y": [0]}, {"x": [1.0], "y": [0]}
    for name, tables in {"later": (first, second), "first": (second, first)}.items():
        folder = write(tmp_path / name, a=tables[0], b=tables[1])
        lacking = "b" if name == "later" else "a"
        with pytest.raises(ValueError, match=f"the file '.*{lacking}.parquet' has no column 'z'"):
            as_source(folder, "y")
    with pytest.raises(ValueError, match=r"b\.parquet' has no column 'z'"):
        as_source(ds.dataset(tmp_path / "later"), "y")


def test_columns_may_be_ordered_and_typed_otherwise_in_later_files(tmp_path):
    write(tmp_path, a={"x": [1], "z": [2.0], "y": [0]}, b={"z": [3.0], "x": [1.5], "y": [1]})
    assert rows(as_source(tmp_path, "y")).X.tolist() == [[1.0, 2.0], [1.5, 3.0]]
    write(tmp_path, b={"z": [3.0], "x": ["word"], "y": [1]})
    with pytest.raises(ValueError, match=r"columns of different types.*x"):
        as_source(tmp_path, "y")


def test_a_file_that_is_something_else_is_named(tmp_path):
    (tmp_path / "a.parquet").write_text("hello")
    for path in (tmp_path, tmp_path / "a.parquet"):
        with pytest.raises(ValueError, match="cannot be read as parquet data"):
            as_source(path, "y")


def test_an_index_without_a_name_is_no_feature(tmp_path):
    """As for ``bayesvm fit``: pandas writes an index beside the columns, and says so."""
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [0, 1, 0]}).iloc[[0, 2, 1]]
    frame.to_parquet(tmp_path / "a.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "a.parquet").names
    for given in (tmp_path / "a.parquet", tmp_path, pa.Table.from_pandas(frame)):
        assert as_source(given, "y").feature_names == ("x",)
    frame.rename_axis("when").to_parquet(tmp_path / "a.parquet")
    assert set(as_source(tmp_path / "a.parquet", "y").feature_names) == {"x", "when"}
