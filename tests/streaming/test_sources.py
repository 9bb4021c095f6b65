"""Whatever rows come from, the chunks hold them all, in order, as often as asked."""

import gc
import os
import tempfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy import sparse

from bayesvm._fit import validation as checks
from bayesvm._fit.engine import joined
from bayesvm._fit.sources import as_source, is_chunked

ROWS = 1000


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3))
    X[:, 2] = rng.integers(-5, 5, ROWS)
    return X, rng.choice(["a", "bb", "ccc"], ROWS), rng.random(ROWS)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(checks, "_CHUNK_ROWS", 64)


def batches(X, y, *weight, size=150):
    return [tuple(part[i : i + size] for part in (X, y, *weight)) for i in range(0, len(y), size)]


def frame(X, y, weight):
    table = {"x0": X[:, 0], "x1": X[:, 1].astype(np.float64), "x2": X[:, 2].astype(np.int8)}
    return pd.DataFrame({**table, "label": y, "w": weight})


def memmap(X, folder):
    path = folder / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def parquet_folder(table, folder):
    folder.mkdir()
    for i in range(3):  # the order of the names is that of the rows
        part = table.iloc[i * 400 : (i + 1) * 400]
        pq.write_table(
            pa.Table.from_pandas(part, preserve_index=False), folder / f"{i}.parquet", row_group_size=99
        )
    return folder


KINDS = {
    "array": lambda X, y, w, folder: (X, y, w),
    "memmap": lambda X, y, w, folder: (memmap(X, folder), y, w),
    "frame": lambda X, y, w, folder: (frame(X, y, w)[["x0", "x1", "x2"]], pd.Series(y), pd.Series(w)),
    "table": lambda X, y, w, folder: (pa.Table.from_pandas(frame(X, y, w)), "label", "w"),
    "dictionary": lambda X, y, w, folder: (
        pa.Table.from_pandas(frame(X, pd.Categorical(y), w)),
        "label",
        "w",
    ),
    "dataset": lambda X, y, w, folder: (ds.dataset(pa.Table.from_pandas(frame(X, y, w))), "label", "w"),
    "folder": lambda X, y, w, folder: (parquet_folder(frame(X, y, w), folder / "parts"), "label", "w"),
    "path": lambda X, y, w, folder: (str(parquet_folder(frame(X, y, w), folder / "parts")), "label", "w"),
    "list": lambda X, y, w, folder: (batches(X, y, w), None, None),
    "frames": lambda X, y, w, folder: (batches(frame(X, y, w)[["x0", "x1", "x2"]], y, w), None, None),
    "function": lambda X, y, w, folder: (lambda: iter(batches(X, y, w)), None, None),
    "iterator": lambda X, y, w, folder: (iter(batches(X, y, w)), None, None),
    "reader": lambda X, y, w, folder: (
        pa.Table.from_pandas(frame(X, y, w)).to_reader(max_chunksize=150),
        "label",
        "w",
    ),
    "objects": lambda X, y, w, folder: (iter(batches(X, y.astype(object), w)), None, None),
    "tensors": lambda X, y, w, folder: (batches(torch.as_tensor(X), y, torch.as_tensor(w)), None, None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_in_order_each_time(data, kind, tmp_path):
    given = KINDS[kind](*data, tmp_path)
    assert is_chunked(*given[:2]) == (kind not in ("array", "memmap", "frame"))
    source = as_source(*given)
    assert source.n_features == 3
    named = kind in ("frame", "frames", "table", "dictionary", "dataset", "folder", "path", "reader")
    assert source.feature_names == (("x0", "x1", "x2") if named else None)
    for _ in range(2):
        chunks = list(source.chunks())
        assert all(0 < len(chunk.y) <= 64 for chunk in chunks)
        together = joined(chunks)
        for found, expected in zip(together, data, strict=True):
            assert_array_equal(found, expected)
        assert together.X.dtype == together.weight.dtype == np.float64


def test_weights_are_ones_if_there_are_none(data):
    X, y, _ = data
    for source in (as_source(X, y), as_source(batches(X, y)), as_source(X, y, 1.0)):
        assert_array_equal(joined(list(source.chunks())).weight, np.ones(ROWS))


def test_wide_rows_make_short_chunks():
    source = as_source(np.ones((5, 2_000_000), np.int8), np.arange(5))
    assert [len(chunk.y) for chunk in source.chunks()] == [1] * 5


def test_memory_maps_are_not_copied_whole(tmp_path):
    path = tmp_path / "X.bin"
    X = np.memmap(path, np.float32, "w+", shape=(10**9, 4))  # 16 gigabytes of nothing, on disk as well
    chunk = next(as_source(X, np.broadcast_to(np.int8(1), 10**9)).chunks())
    assert chunk.X.shape == (64, 4)


def test_missing_numbers_of_arrow_are_nan():
    table = pa.table({"x": pa.array([1, None, 3]), "b": pa.array([True, None, False]), "y": [0, 1, 0]})
    (chunk,) = as_source(table, "y").chunks()
    assert_array_equal(chunk.X, [[1.0, 1.0], [np.nan, np.nan], [3.0, 0.0]])
    assert chunk.y.dtype == np.int64


def test_an_arrow_file(tmp_path):
    table = pa.table({"x": [1.0, 2.0], "y": ["a", "b"]})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    (chunk,) = as_source(tmp_path / "t.arrow", "y").chunks()
    assert chunk.X.tolist() == [[1.0], [2.0]]
    assert chunk.y.tolist() == ["a", "b"]


def test_spooled_rows_leave_nothing_behind(data, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = as_source(iter(batches(*data)))
    assert len(os.listdir(tmp_path)) == 1
    walk = source.chunks()
    next(walk)
    del source, walk
    gc.collect()
    assert os.listdir(tmp_path) == []

    def broken():
        yield batches(*data)[0]
        raise RuntimeError("the line is cut")

    with pytest.raises(RuntimeError, match="the line is cut"):
        as_source(broken())
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_lists_of_rows_are_arrays():
    assert not is_chunked([[1.0, 2.0], [3.0, 4.0]], [0, 1])
    assert not is_chunked([[1.0, 2.0], [3.0, 4.0]])
    assert not is_chunked([("a", 1), ("b", 2)])
    assert not is_chunked(pd.DataFrame({"x": [1.0]}))
    assert not is_chunked(pa.table({"x": [1.0]}), [0])


def test_batches_that_change_between_passes_are_noticed(data):
    X, y, _ = data
    sizes = iter([150, 150, 200])

    def opened():
        n = next(sizes)
        return batches(X[:n], y[:n])

    source = as_source(opened)
    # The first look at the columns is no pass.
    list(source.chunks())
    with pytest.raises(ValueError, match="changed between two passes: 150 of them, then 200"):
        list(source.chunks())


def other_columns(*columns):
    """Two data frames as batches, the second with other columns."""
    first = pd.DataFrame(np.ones((2, 2)), columns=list(columns[:2]))
    return [(first, [0, 1]), (first.set_axis(list(columns[2:]), axis=1), [0, 1])]


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize(
    ("columns", "difference"),
    [
        ("abba", "column 0 is 'b' instead of 'a'; the order differs"),
        ("abac", "column 1 is 'c' instead of 'b'; the names differ"),
        ((0, 1, 1, 0), "column 0 is 1 instead of 0; the order differs"),
    ],
)
def test_data_frames_with_other_columns_are_refused(columns, difference, once):
    given = other_columns(*columns)
    with pytest.raises(ValueError, match=f"batch 1 has other columns than .*: {difference}"):
        list(as_source(iter(given) if once else given).chunks())
    list(as_source(other_columns(*columns[:2], *columns[:2])).chunks())


@pytest.mark.parametrize("big", [False, True])
def test_what_is_missing_in_a_data_frame_is_nan(big):
    given = pd.DataFrame({"a": pd.array([1.0, None], "Float64"), "b": [1, 2]})
    source = as_source(given, [0, 1]) if big else as_source([(given, [0, 1])])
    (chunk,) = source.chunks()
    assert_array_equal(chunk.X, [[1.0, 1.0], [np.nan, 2.0]])


ONE = np.ones((2, 2))
REFUSED = {
    "labels beside batches": (lambda: iter([(ONE, [0, 1])]), [0, 1], "leave out y and sample_weight"),
    "no batches": (list, None, "there are no batches"),
    "an empty list": ([], None, "there are no batches"),
    "a list of arrays": ([ONE, ONE], None, r"batch 0 is ndarray; every batch must be \(X, y\)"),
    "a list of dicts": ([{"X": ONE}], None, r"batch 0 is dict; every batch must be \(X, y\)"),
    "sparse": (sparse.csr_matrix(ONE), [0, 1], "rows from 0 on: X is sparse.* X.toarray"),
    "sparse batches": (lambda: [(sparse.csr_array(ONE), [0, 1])], None, "batch 0: X is sparse"),
    "no columns": (ONE[:, :0], [0, 1], r"X has 0 feature\(s\)"),
    "a reader without a name": (pa.table({"x": [1.0]}).to_reader(), None, "y must be the name of a column"),
    "an empty iterator": (iter([]), None, "gave no batches"),
    "arrays for batches": (lambda: [ONE], None, r"batch 0 is ndarray; every batch must be \(X, y\)"),
    "four items": (lambda: [(ONE, 1, 2, 3)], None, "batch 0 is 4 items"),
    "other columns": (lambda: [(ONE, [0, 1]), (np.ones((2, 3)), [0, 1])], None, "batch 1 has 3 columns"),
    "too few labels": (lambda: [(ONE, [0])], None, r"batch 0: y has the shape \(1,\); expected .* 2 rows"),
    "words": (lambda: [(np.array([["a", "b"]]), [0])], None, "batch 0: X must hold numbers; could not"),
    "complex": (lambda: [(ONE * 1j, [0, 1])], None, "batch 0: X must hold numbers; complex"),
    "negative weights": (lambda: [(ONE, [0, 1], [1, -2])], None, "batch 0: weights must .* one given is -2"),
    "no label": (lambda: [(ONE, ["a", None])], None, "batch 0: row 1 of these has no label"),
    "one dimension": (np.ones(3), [0, 1, 0], r"2-dimensional X; got the shape \(3,\)"),
    "no labels": (ONE, None, "y must be given: the labels of the 2 rows"),
    "no such file": ("nowhere.parquet", "y", "there is no file or folder 'nowhere.parquet'"),
    "no target": (pa.table({"x": [1], "label": [0]}), "lable", "did you mean 'label'"),
    "array for a name": (".", [0], "no file named like .parquet"),
    "words in Arrow": (pa.table({"x": ["a"], "y": [0]}), "y", "column 'x' holds string, not numbers"),
    "no features": (pa.table({"y": [0]}), "y", r"no column besides \['y'\]"),
    "null label": (pa.table({"x": [1.0, 2.0], "y": [0, None]}), "y", "row 1 has no label in 'y'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_to_do(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        list(as_source(X, y).chunks())


def test_text_files_are_named_with_a_way_out(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1.5,a\n2.5,b\n")
    with pytest.raises(ValueError, match=r"not named like a Parquet.*format='csv'"):
        as_source(tmp_path / "t.csv", "y")
    (chunk,) = as_source(ds.dataset(tmp_path / "t.csv", format="csv"), "y").chunks()
    assert chunk.X.tolist() == [[1.5], [2.5]]
