"""Predictions as columns, equal to what the model says; models fitted from Python; relevance of columns."""

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from bayesvm import BayesianSVC, TooFewRowsWarning
from bayesvm.tables import (
    TableError,
    column_relevance,
    open_blocks,
    predict_blocks,
    predict_table,
    read_table,
    table_classifier,
    write_table,
)

from .data import FAST, mixed_table


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


@pytest.fixture(scope="module")
def unsure():
    """A classifier without what tells ants from bees."""
    table = mixed_table()
    return table_classifier("species", ignore=["note", "flies"], **FAST).fit(table, table["species"])


@pytest.mark.parametrize("max_error", [0.3, 0.2])
def test_abstention(unsure, new, max_error):
    out = predict_table(unsure, new, max_error)
    X = unsure[:-1].transform(new)
    np.testing.assert_array_equal(out["ask_a_person"], unsure["model"].abstain(X, max_error))
    assert out["ask_a_person"].dtype == bool
    assert 0 < out["ask_a_person"].sum() < len(new)


@pytest.mark.parametrize(
    ("max_error", "why"),
    [
        (0.01, r"takes at least 230 rows to judge by.* that 120 can promise is 0\.0191"),
        (0.1, "of the 120 rows it would rest on too many are answered wrongly"),
    ],
)
def test_a_rate_that_the_rows_do_not_support_leaves_every_row_to_a_person(unsure, new, max_error, why):
    with pytest.warns(TooFewRowsWarning, match=why):
        assert predict_table(unsure, new, max_error)["ask_a_person"].all()


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


# --- Models that know nothing of tables.


X = np.random.default_rng(0).normal(size=(40, 2))
TABLE = pd.DataFrame({"id": [f"r{i}" for i in range(40)], "b": X[:, 1], "a": X[:, 0], "label": X[:, 0] > 0})


@pytest.fixture(scope="module")
def plain():
    return BayesianSVC(**FAST).fit(TABLE[["a", "b"]], TABLE["label"])


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_blocks_for_an_estimator_by_itself(plain, tmp_path, name):
    """It takes its own columns out of the table, in its own order."""
    write_table(TABLE, tmp_path / name)
    out = pd.concat(predict_blocks(plain, open_blocks(tmp_path / name, model=plain)))
    np.testing.assert_allclose(out.filter(like="probability_"), plain.predict_proba(TABLE[["a", "b"]]))
    pd.testing.assert_frame_equal(predict_table(plain, read_table(tmp_path / name, model=plain)), out)


def test_what_is_lacking_is_named(plain):
    with pytest.raises(TableError, match=r"no column 'a', which the model needs; did you mean 'A'\?"):
        predict_table(plain, TABLE.rename(columns={"a": "A"}))
    with pytest.raises(TableError, match="takes numbers only; column 'b'"):
        predict_table(plain, TABLE.assign(b="x"))
    with pytest.raises(TableError, match="column 'a' has other or missing values"):
        predict_table(plain, TABLE.assign(a=TABLE["a"].where(TABLE.index != 3)))


def test_names_are_not_needed():
    nameless = BayesianSVC(**FAST).fit(X, X[:, 0] > 0)
    out = predict_table(nameless, pd.DataFrame(X, columns=["u", "v"]))
    np.testing.assert_array_equal(out["prediction"], nameless.predict(X))
    with pytest.raises(TableError, match="2 columns without names, the table has 4"):
        predict_table(nameless, TABLE)


def test_steps_before_a_model_see_the_values_as_they_are():
    pipeline = make_pipeline(SimpleImputer(), BayesianSVC(**FAST)).fit(TABLE[["a", "b"]], TABLE["label"])
    gaps = TABLE.assign(a=TABLE["a"].where(TABLE.index != 3))
    np.testing.assert_array_equal(
        predict_table(pipeline, gaps)["prediction"], pipeline.predict(gaps[["a", "b"]])
    )


# --- Relevance of columns.


def test_shares_of_the_columns_in_order(pipeline):
    relevance = column_relevance(pipeline)
    assert set(relevance.index) == set(pipeline["columns"].names_)
    assert relevance.sum() == pytest.approx(1.0)
    assert relevance.is_monotonic_decreasing
    assert (relevance >= 0).all()
    pd.testing.assert_series_equal(relevance, column_relevance(pipeline))


def test_a_column_and_the_flag_of_its_gaps_move_together(pipeline):
    from bayesvm.tables._predictions import _features_of_columns

    features, encoder = _features_of_columns(pipeline), pipeline["model"]._columns
    assert sorted(np.concatenate(list(features.values()))) == list(range(len(encoder.owner)))
    owner = pipeline["vectoriser"].origins_[encoder.gaps[0]]
    assert encoder.n_numbers in features[owner]  # the first flag


@pytest.mark.parametrize("seed", range(2))
def test_noise_with_many_features_does_not_outrank_signal(seed):
    rng = np.random.default_rng(seed)
    n = 400
    table = pd.DataFrame(
        {
            "signal": rng.normal(size=n),
            "category": rng.choice(list("abcdefg"), n),
            "code": [f"{v:,}" + "x" for v in rng.integers(1000, 99999, n)],
            "half": rng.normal(size=n),
        }
    )
    y = np.where(
        np.sin(2 * table["signal"]) + 0.7 * table["half"] + 0.3 * rng.normal(size=n) > 0, "up", "down"
    )
    relevance = column_relevance(table_classifier("y").fit(table, y))
    assert set(relevance.index[:2]) == {"signal", "half"}
    assert relevance[["category", "code"]].sum() < 0.35


def test_of_numbers_without_gaps():
    table = mixed_table()[["species"]]
    table = table.assign(x=np.arange(len(table)), y=1.0 * np.arange(len(table)) ** 2)
    relevance = column_relevance(table_classifier("species", **FAST).fit(table, table["species"]))
    assert relevance.sum() == pytest.approx(1.0)
