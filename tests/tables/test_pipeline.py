"""One pipeline for any table: deterministic, independent of other rows, robust."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bayesvm import BayesianSVC
from bayesvm.tables import TableWarning, table_classifier

from .data import FAST, mixed_table


@pytest.fixture(scope="module")
def table():
    return mixed_table()


@pytest.fixture(scope="module")
def pipeline(table):
    return table_classifier("species", **FAST).fit(table, table["species"])


def test_steps_have_their_names(pipeline):
    assert list(pipeline.named_steps) == ["columns", "vectoriser", "imputer", "model"]
    assert isinstance(pipeline["model"], BayesianSVC)
    assert table_classifier("y", n_inducing=7)["model"].n_inducing == 7


def test_it_learns(pipeline, table):
    assert pipeline["model"].loo_score_ > 0.95
    assert (pipeline.predict(table) == table["species"]).mean() > 0.95


def test_every_feature_is_finite(pipeline, table):
    X = pipeline[:-1].transform(table)
    assert np.isfinite(X).all()
    assert X.shape[1] == pipeline["model"].n_features_in_


def test_same_table_same_model(pipeline, table):
    again = table_classifier("species", **FAST).fit(table, table["species"])
    assert_array_equal(again.predict_proba(table), pipeline.predict_proba(table))


def test_predictions_do_not_depend_on_other_rows(pipeline, table):
    new = mixed_table(30, seed=1)
    together = pipeline.predict_proba(new)
    for i in (0, 7, 29):
        assert_allclose(pipeline.predict_proba(new.iloc[[i]]), together[[i]], rtol=0, atol=1e-12)
    assert_allclose(pipeline.predict_proba(pd.concat([table, new])[-30:]), together, rtol=0, atol=1e-12)


def test_a_row_of_nothing_can_be_predicted(pipeline, table):
    nothing = pd.DataFrame({name: [None] for name in table.columns})
    proba = pipeline.predict_proba(nothing)
    assert np.isfinite(proba).all()


def test_an_unseen_category_is_none_of_the_known(pipeline, table):
    row = table.dropna().iloc[[0]]
    features = []
    for grade in ("low", "high", "unheard of"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            features.append(pipeline[:-1].transform(row.assign(grade=grade)))
    assert not np.array_equal(features[2], features[0])
    assert not np.array_equal(features[2], features[1])


def test_names_that_collide_after_encoding():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "a": rng.choice(["x", "y", "b_x"], 60),
            "a_x": rng.normal(size=60),
            "a_b": rng.choice(["x", "y"], 60),
        }
    )
    pipeline = table_classifier("t", **FAST).fit(table, rng.choice(["u", "v"], 60))
    assert set(pipeline["vectoriser"].origins_) == {"a", "a_x", "a_b"}
    assert np.isfinite(pipeline.predict_proba(table.iloc[:1])).all()


@pytest.mark.parametrize(
    "columns",
    [
        {"only text": [f"sentence {i * 7919} about things" for i in range(60)]},
        {"short words": [f"{i % 7}{i % 6}{i % 5}" + "ab"[i % 2] for i in range(60)]},
        {"only dates": pd.date_range("2024-01-01", periods=60, freq="5h")},
        {"mostly missing": [1.0, 2.0] + [None] * 58},
        {"one gap": ["x"] * 59 + [None], "n": range(60)},
        {"bools": [True, False, None] * 20},
        {"large ints": np.arange(60) + 2**40},
        {"outlier": [*range(59), 1e30]},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_odd_tables_can_be_fitted(columns):
    table = pd.DataFrame(columns)
    pipeline = table_classifier("y", **FAST).fit(table, ["a", "b"] * 30)
    assert np.isfinite(pipeline.predict_proba(table)).all()
    assert np.isfinite(pipeline.predict_proba(table.iloc[[3]])).all()
    assert np.isfinite(pipeline.predict_proba(pd.DataFrame({name: [None] for name in columns}))).all()
