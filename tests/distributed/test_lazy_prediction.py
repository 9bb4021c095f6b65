"""Predictions of Dask collections are lazy, typed, and those of the estimator."""

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from bayesvm import BayesianSVC
from bayesvm.distributed import DaskBayesianSVC

X, y = load_iris(return_X_y=True, as_frame=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
METHODS = ["predict", "predict_proba", "predict_log_proba", "decision_function"]


@pytest.fixture(scope="module", params=["numbers", "strings", "two"])
def models(request):
    """A local model, and the same one with the face of Dask."""
    rows, labels = X, y.to_numpy()
    if request.param == "strings":
        labels = NAMES[labels]
    if request.param == "two":
        labels = np.where(labels == 0, "no", "yes").astype(object)
    fast = {"n_inducing": 10, "hyperparameters": "fixed", "random_state": 0}
    return BayesianSVC(**fast).fit(rows, labels), DaskBayesianSVC(**fast).fit(rows, labels)


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def same(found, expected):
    """Equal labels; numbers equal but for the rounding of products of other sizes."""
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chunks", [(150, 4), (40, 2)])
def test_arrays(models, method, chunks):
    local, on_dask = models
    expected = getattr(local, method)(X.to_numpy())
    lazy = getattr(on_dask, method)(da.from_array(X.to_numpy(), chunks=chunks))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == expected.shape
    assert lazy.chunks[0] == da.from_array(X.to_numpy(), chunks=chunks).chunks[0]
    assert lazy.dtype == expected.dtype
    assert lazy._meta.shape == (0,) * expected.ndim
    computed = lazy.compute()
    assert computed.dtype == expected.dtype
    same(computed, expected)


@pytest.mark.parametrize("method", METHODS)
def test_frames(models, method):
    local, on_dask = models
    frame = X.set_index(pd.Index(range(1000, 1150), name="flower"))
    lazy = getattr(on_dask, method)(dd.from_pandas(frame, npartitions=3))
    expected = getattr(local, method)(X)
    computed = lazy.compute()
    assert isinstance(lazy, dd.Series if expected.ndim == 1 else dd.DataFrame)
    assert lazy.npartitions == 3
    assert lazy.known_divisions
    pd.testing.assert_index_equal(computed.index, frame.index)
    same(computed.to_numpy(), expected)
    if expected.ndim == 1:
        assert lazy.dtype == computed.dtype
        assert computed.name == method
    else:
        assert list(lazy.columns) == list(computed.columns) == list(local.classes_)
        assert (lazy.dtypes == computed.dtypes).all()


def test_nothing_is_computed_before_it_is_asked_for(models):
    def never(block):
        raise AssertionError("a block was computed")

    _, on_dask = models
    lazy = da.from_array(X.to_numpy(), chunks=(50, 4)).map_blocks(never, dtype=float, meta=np.empty((0, 0)))
    frame = dd.from_pandas(X, npartitions=2).map_partitions(never, meta=X.iloc[:0])
    for method in METHODS:
        getattr(on_dask, method)(lazy)
        getattr(on_dask, method)(frame)


def test_predictions_become_columns(models):
    local, on_dask = models
    frame = dd.from_pandas(X, npartitions=3)
    found = frame.assign(label=on_dask.predict(frame)).compute()
    np.testing.assert_array_equal(found["label"].to_numpy(), local.predict(X))


def test_empty_blocks_and_unknown_sizes(models):
    local, on_dask = models
    frame = dd.from_pandas(X, npartitions=3)
    wide = frame[frame["sepal length (cm)"] > 7.6]
    expected = local.predict_proba(X[X["sepal length (cm)"] > 7.6])
    same(on_dask.predict_proba(wide).compute().to_numpy(), expected)
    same(on_dask.predict_proba(wide.to_dask_array()).compute(), expected)
    assert on_dask.predict(wide).compute().tolist() == local.classes_[expected.argmax(1)].tolist()


def test_the_model_travels_once(models):
    graph = models[1].predict_proba(da.from_array(X.to_numpy(), chunks=(10, 4))).__dask_graph__()
    size = len(pickle.dumps(models[1].to_local().model_))
    sent = [a for task in graph.to_dict().values() for a in getattr(task, "args", ()) if isinstance(a, bytes)]
    assert len(sent) == 1
    assert len(sent[0]) < 1.5 * size  # and nothing travels with it, such as leave-one-out of all rows


@pytest.mark.parametrize("models", ["strings"], indirect=True)
def test_predictions_on_a_cluster(models, in_use):
    local, on_dask = models
    with dask.config.set(scheduler=None):
        lazy = on_dask.predict_proba(da.from_array(X.to_numpy(), chunks=(40, 4)))
        same(lazy.compute(), local.predict_proba(X.to_numpy()))


def test_wrong_columns_are_refused_at_once(models):
    _, on_dask = models
    with pytest.raises(ValueError, match="feature names should match"):
        on_dask.predict(dd.from_pandas(X[X.columns[::-1]], npartitions=2))
    with pytest.raises(ValueError, match="3 features"):
        on_dask.predict(da.zeros((10, 3)))
    with pytest.raises(ValueError, match="hold no numbers"):
        on_dask.predict(dd.from_pandas(X.assign(word="a"), npartitions=2))
    with pytest.raises(ValueError, match="two dimensions"):
        on_dask.predict(da.zeros(10))


@pytest.mark.filterwarnings("default:X does not have valid feature names")
@pytest.mark.parametrize(
    "ask",
    [
        lambda model, rows: model.predict(rows).compute(),
        lambda model, rows: model.uncertainty(rows),
        lambda model, rows: model.score(rows, np.resize(model.classes_, 150)),
    ],
)
def test_missing_names_are_mentioned_once(models, ask):
    with pytest.warns(UserWarning, match="valid feature names") as noted:
        ask(models[1], da.from_array(X.to_numpy(), chunks=(40, 4)))
    assert len(noted) == 1


@pytest.mark.filterwarnings("error")
def test_all_methods_compare_the_columns(models):
    local, on_dask = models
    frame = dd.from_pandas(X, npartitions=3)
    labels = dd.from_pandas(pd.Series(local.predict(X)), npartitions=3)
    assert on_dask.score(frame, labels) == on_dask.score(frame.assign(label=labels), "label") == 1.0
    same(on_dask.uncertainty(frame).total, local.uncertainty(X).total)
    same(on_dask.predict_top_k(frame, 1).probabilities, local.predict_top_k(X, 1).probabilities)
    permuted, renamed = X[X.columns[::-1]], X.rename(columns={X.columns[0]: "other"})
    for wrong in (permuted, renamed):
        given = dd.from_pandas(wrong, npartitions=3)
        for method in (*METHODS, "uncertainty", "predict_top_k", "predict_latent", "variation_ratio"):
            with pytest.raises(ValueError, match="feature names should match"):
                getattr(on_dask, method)(given)
        with pytest.raises(ValueError, match="feature names should match"):
            on_dask.score(given, labels)


def test_scores_that_mean_nothing_are_refused(models):
    local, on_dask = models
    rows = da.from_array(X.to_numpy(), chunks=(50, 4))
    with pytest.raises(ValueError, match="all sample weights are zero: there is no row to score"):
        on_dask.score(rows, local.predict(X), sample_weight=0)
    sort, other = ("numbers", "texts") if local.classes_.dtype.kind == "i" else ("texts", "numbers")
    labels = np.full(150, "setosa") if sort == "numbers" else y.to_numpy()
    with pytest.raises(ValueError, match=f"labels in y are {other}, .* fitted to labels that are {sort}"):
        on_dask.score(rows, labels)


def test_rows_in_memory_are_predicted_at_once(models):
    local, on_dask = models
    for method in METHODS:
        np.testing.assert_array_equal(getattr(on_dask, method)(X), getattr(local, method)(X))
