"""Arrays and data frames become chunks with the right rows, or are refused in words."""

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from bayesvm._fit.engine import joined
from bayesvm.distributed._inputs import as_groups

N = 20_000
X = np.random.default_rng(1).normal(size=(N, 3))
y = np.random.default_rng(2).integers(0, 4, N)
w = np.random.default_rng(3).random(N)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=y, w=w)


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def chunk(groups):
    """All rows, in their order."""
    return joined([c for group in dask.compute(*groups.tasks) for c in group])


def check(groups, labels=y, weight=None, names=None):
    all_rows = chunk(groups)
    np.testing.assert_array_equal(all_rows.X, X)
    assert all_rows.X.dtype == np.float64
    assert all_rows.X.flags.c_contiguous
    np.testing.assert_array_equal(all_rows.y, labels)
    np.testing.assert_array_equal(all_rows.weight, np.ones(N) if weight is None else weight)
    assert (groups.n_features, groups.feature_names) == (3, names)


def darray(a, chunks):
    return da.from_array(a, chunks=chunks)


@pytest.mark.parametrize("given", [y, y.tolist(), darray(y, 777), dd.from_array(y, chunksize=5000)])
def test_labels_of_an_array_may_be_cut_otherwise(given):
    check(as_groups(darray(X, (5000, 2)), given, None))


@pytest.mark.parametrize("given", [w, darray(w, 6000)])
def test_weights_of_an_array(given):
    check(as_groups(darray(X, (5000, 3)), y, given), weight=w)
    check(as_groups(darray(X, (5000, 3)), y, 2.5), weight=np.full(N, 2.5))


def test_small_blocks_are_joined_and_large_ones_cut():
    assert len(as_groups(darray(X, (100, 3)), y, None).tasks) == 5
    check(as_groups(darray(X, (100, 3)), y, None))
    wide = np.zeros((1000, 10_000))
    (group,) = dask.compute(*as_groups(darray(wide, wide.shape), np.zeros(1000), None).tasks)
    assert [len(c.y) for c in group] == [209, 209, 209, 209, 164]


@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool])
def test_other_numbers_become_doubles(dtype):
    given = (X > 0).astype(dtype)
    rows = chunk(as_groups(darray(given, (5000, 3)), y, None)).X
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, given)


def test_labels_of_two_sorts_are_not_joined():
    """numpy would make texts of the numbers, and nobody would notice."""
    labels = np.concatenate([y[:10_000].astype(object), y[10_000:].astype(str).astype(object)])
    groups = dask.compute(*as_groups(darray(X, (100, 3)), labels, None).tasks)
    chunks = [c for group in groups for c in group]
    found = [type(c.y[0]) for c in chunks]
    assert all(len({type(label) for label in c.y}) == 1 for c in chunks)
    assert set(found) == {int, str}
    assert sum(len(c.y) for c in chunks) == N


def test_unknown_sizes_go_by_blocks():
    rows = darray(X, (5000, 3))
    some = rows[:, 0] > 0
    groups = as_groups(rows[some], darray(y, 5000)[some], None)
    np.testing.assert_array_equal(chunk(groups).y, y[X[:, 0] > 0])
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        as_groups(rows[some], y[X[:, 0] > 0], None)
    with pytest.raises(ValueError, match="8 blocks and X has 4"):
        as_groups(rows[some], darray(y, 2500)[some], None)
    with pytest.raises(ValueError, match=r"block \d of y has 5000 entries"):
        chunk(as_groups(rows[some], darray(y, 5000), None))


@pytest.mark.parametrize("npartitions", [1, 4])
def test_frames(npartitions):
    frame = dd.from_pandas(FRAME, npartitions=npartitions)
    features = frame[["a", "b", "c"]]
    names = ("a", "b", "c")
    check(as_groups(features, frame["label"], None), names=names)
    check(as_groups(features, frame["label"], frame["w"]), weight=w, names=names)
    check(as_groups(frame, "label", "w"), weight=w, names=names)
    check(as_groups(features, frame["label"].to_dask_array(), None), names=names)


def test_numbered_columns_have_no_names():
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=4)
    assert as_groups(frame, darray(y, 5000), None)[1:] == (3, None)


@pytest.mark.parametrize("kind", ["string", "category", "Int64", "object", "int64[pyarrow]"])
def test_labels_of_every_kind_of_column(kind):
    words = kind in ("string", "category", "object")
    labels = np.array(["w", "x", "y", "z"])[y] if words else y
    frame = FRAME.assign(label=pd.Series(labels).astype(kind))
    found = chunk(as_groups(dd.from_pandas(frame, npartitions=3), "label", "w")).y
    np.testing.assert_array_equal(found, labels)
    assert found.dtype.kind in ("OUT" if words else "i")


@pytest.mark.parametrize("kind", ["string", "category", "Int64", "object", "float64"])
def test_missing_labels_are_refused(kind):
    labels = pd.Series(["1"] * N if kind in ("string", "category", "object") else y).astype(kind)
    labels[7] = None
    frame = dd.from_pandas(FRAME.assign(label=labels), npartitions=2)
    with pytest.raises(ValueError, match="block 0: row 7 of these has no label"):
        chunk(as_groups(frame, "label", "w"))


def test_missing_numbers_are_left_to_the_first_pass():
    a = pd.Series(X[:, 0]).astype("Float64")
    a[5] = pd.NA
    frame = dd.from_pandas(FRAME.assign(a=a), npartitions=2)
    assert np.isnan(chunk(as_groups(frame, "label", "w")).X[5, 0])


def test_rows_that_do_not_correspond_are_refused():
    frame = dd.from_pandas(FRAME, npartitions=2)
    other = dd.from_pandas(FRAME["label"].rename(lambda i: i + 1), npartitions=2)
    with pytest.raises(ValueError, match=r"block \d of y has another index than X"):
        chunk(as_groups(frame[["a"]], other, None))


def refuse(match, *given, error=ValueError):
    with pytest.raises(error, match=match):
        as_groups(*given)


def test_refusals():
    rows, frame = darray(X, (5000, 3)), dd.from_pandas(FRAME, npartitions=2)
    refuse("y has 19999 entries for 20000 rows", rows, y[1:], None)
    refuse("sample_weight has 19999 entries", rows, y, darray(w[1:], 5000))
    refuse("two dimensions", rows[:, 0], y, None)
    refuse("real numbers", rows.astype(complex), y, None)
    refuse("real numbers", rows.astype(str), y, None)
    refuse("one dimension", rows, darray(y[:, None], (5000, 1)), None)
    refuse("one dimension", rows, y[:, None], None)
    refuse("y is missing", rows, None, None)
    refuse("names a column", rows, "label", None, error=TypeError)
    refuse("y='target' is not a column of the data; there are \\['a', 'b'", frame, "target", None)
    refuse("y='lable' is not a column of the data; did you mean 'label'\\?", frame, "lable", None)
    refuse("sample_weight='W1' is not a column", frame, "label", "W1")
    refuse(r"columns \['when'\] of X hold no numbers", frame.assign(when="today"), "label", None)
    refuse("no column left", frame[["label"]], "label", None)
    refuse("y is in memory", frame, y, None)
    refuse("got Delayed.* dask.dataframe.from_delayed", dask.delayed(FRAME), "label", None, error=TypeError)
    refuse("got Bag", dask.bag.from_sequence([1]), y, None, error=TypeError)
    with pytest.raises(ValueError, match="block 2: weights must be finite and not negative"):
        chunk(as_groups(rows, y, np.where(np.arange(N) == 10_001, -1, w)))
