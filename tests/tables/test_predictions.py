"""Predictions as columns, equal to what the model says."""

import numpy as np
import pandas as pd
import pytest

from bayesvm.tables import TableError, predict_table, table_classifier

from .data import FAST, mixed_table


@pytest.fixture(scope="module")
def pipeline():
    table = mixed_table()
    return table_classifier("species", **FAST).fit(table, table["species"])


@pytest.fixture(scope="module")
def new():
    return mixed_table(40, seed=1).drop(columns="species").set_axis(range(5, 45))


def test_columns(pipeline, new):
    out = predict_table(pipeline, new)
    assert out.columns.tolist() == [
        "prediction",
        "probability",
        "probability_ant",
        "probability_bee",
        "probability_cow",
        "variation_ratio",
        "epistemic",
    ]
    assert out.index.tolist() == new.index.tolist()
    model, X = pipeline["model"], pipeline[:-1].transform(new)
    np.testing.assert_array_equal(out["prediction"], pipeline.predict(new))
    np.testing.assert_array_equal(out.filter(like="probability_"), pipeline.predict_proba(new))
    np.testing.assert_array_equal(out["probability"], pipeline.predict_proba(new).max(1))
    np.testing.assert_array_equal(out["variation_ratio"], model.variation_ratio(X))
    np.testing.assert_array_equal(out["epistemic"], model.uncertainty(X).epistemic)


@pytest.mark.parametrize("max_error", [0.3, 0.01])
def test_abstention(pipeline, new, max_error):
    out = predict_table(pipeline, new, max_error)
    X = pipeline[:-1].transform(new)
    np.testing.assert_array_equal(out["ask_a_person"], pipeline["model"].abstain(X, max_error))
    assert out["ask_a_person"].dtype == bool


def test_labels_keep_their_type():
    table = mixed_table()
    for y in (table["legs"].to_numpy(), table["flies"].to_numpy()):
        pipeline = table_classifier("y", **FAST).fit(table.drop(columns=["legs", "flies"]), y)
        out = predict_table(pipeline, table.head(3))
        assert out["prediction"].dtype == y.dtype
        assert f"probability_{y[0]}" in out


def test_one_row_and_no_row(pipeline, new):
    everything = predict_table(pipeline, new, 0.1)
    pd.testing.assert_frame_equal(predict_table(pipeline, new.iloc[[7]], 0.1), everything.iloc[[7]])
    with pytest.raises(TableError, match="no rows"):
        predict_table(pipeline, new.head(0))


def test_bad_error_rates(pipeline, new):
    with pytest.raises(ValueError, match="max_error=2"):
        predict_table(pipeline, new, 2)
