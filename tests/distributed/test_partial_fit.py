"""More rows from Dask: those of the right columns, by the name of the target too."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from bayesvm import BayesianSVC
from bayesvm.distributed import DaskBayesianSVC

FAST = {"hyperparameters": "fixed", "n_inducing": 10, "random_state": 0}
X = np.random.default_rng(0).normal(size=(90, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
    label=np.where(X[:, 0] > 0, "up", "down"), w=1.0 + (X[:, 1] > 0)
)
ROWS, MORE = FRAME[:50], FRAME[50:]
CLASSES = ["down", "up"]


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def cut(frame):
    return dd.from_pandas(frame, npartitions=3)


def expected():
    model = BayesianSVC(**FAST).partial_fit(ROWS[["a", "b", "c"]], ROWS["label"], CLASSES, ROWS["w"])
    return model.partial_fit(MORE[["a", "b", "c"]], MORE["label"], sample_weight=MORE["w"])


def check(model):
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.model_.m, expected().model_.m)
    np.testing.assert_array_equal(model.loo_proba_, expected().loo_proba_)


def test_the_columns_of_a_frame_are_named():
    model = DaskBayesianSVC(**FAST).partial_fit(cut(ROWS), "label", CLASSES, "w")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    check(model.partial_fit(cut(MORE), "label", sample_weight="w"))


def test_labels_of_the_same_frame():
    model = DaskBayesianSVC(**FAST)
    for frame in map(cut, (ROWS, MORE)):
        model.partial_fit(frame[["a", "b", "c"]], frame["label"], CLASSES, frame["w"])
    check(model)


def test_arrays():
    model = DaskBayesianSVC(**FAST)
    for part in (slice(0, 50), slice(50, None)):
        rows = da.from_array(X[part], chunks=(20, 2))
        model.partial_fit(rows, FRAME["label"].to_numpy()[part], CLASSES, FRAME["w"].to_numpy()[part])
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.model_.m, expected().model_.m)


def test_other_columns_are_refused_before_rows_are_read():
    @dask.delayed
    def never():
        raise AssertionError("rows were read")

    model = DaskBayesianSVC(**FAST).fit(cut(ROWS), "label", "w")
    before = model.model_
    frame = dd.from_delayed([never()], meta=MORE)
    for columns in (["c", "a", "b"], ["a", "b"]):
        with pytest.raises(ValueError, match="feature names should match"):
            model.partial_fit(frame[columns], frame["label"])
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame[["a", "b", "c"]].rename(columns={"c": "d"}), frame["label"])
    with pytest.raises(ValueError, match="feature names should match"):  # the weights are no feature
        model.partial_fit(frame, "label")
    for method in (model.partial_fit, model.score, DaskBayesianSVC(**FAST).fit):
        with pytest.raises(
            ValueError, match=r"y='lable' is not a column of the data; did you mean 'label'\?"
        ):
            method(frame, "lable")
    assert model.model_ is before


def test_goes_on_from_a_fit():
    model = DaskBayesianSVC(**FAST).fit(cut(ROWS.drop(columns="w")), "label")
    local = BayesianSVC(**FAST).fit(ROWS.drop(columns="w"), "label")
    model.partial_fit(cut(MORE.drop(columns="w")), "label", forgetting=0.5)
    local.partial_fit(MORE.drop(columns="w"), "label", forgetting=0.5)
    np.testing.assert_array_equal(model.model_.m, local.model_.m)
    assert not hasattr(DaskBayesianSVC(inference="ecm"), "partial_fit")


def test_rows_in_memory_may_name_their_label():
    model = DaskBayesianSVC(**FAST).fit(ROWS, "label", "w")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
