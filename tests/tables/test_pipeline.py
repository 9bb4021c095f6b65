"""One pipeline for any table: features of every kind of column, and predictions of each row by itself."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from skrub import StringEncoder

from bayesvm import BayesianSVC
from bayesvm.tables import TableWarning, table_classifier
from bayesvm.tables._kinds import MANY_VALUES, as_text
from bayesvm.tables._pipeline import Vectoriser
from bayesvm.tables._text import TextEncoder

from .data import FAST, mixed_table


@pytest.fixture(scope="module")
def table():
    return mixed_table()


def test_steps_have_their_names(pipeline):
    assert list(pipeline.named_steps) == ["columns", "vectoriser", "model"]
    assert isinstance(pipeline["model"], BayesianSVC)
    assert table_classifier("y", n_inducing=7)["model"].n_inducing == 7


def test_it_learns(pipeline, table):
    assert pipeline["model"].loo_score_ > 0.95
    assert (pipeline.predict(table) == table["species"]).mean() > 0.95


def test_gaps_and_categories_reach_the_model(pipeline, table):
    X = pipeline[:-1].transform(table)
    numbers = X.select_dtypes("number")
    assert not np.isinf(numbers).any(axis=None)
    assert numbers.isna().any(axis=None)
    assert set(X.select_dtypes("category")) == set(pipeline["vectoriser"].categories_)
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


# --- Features of each kind of column.


DAYS = pd.to_datetime(["2024-02-29 13:00", None, "2019-12-31 00:00"]).astype("datetime64[us]")
SENTENCES = as_text(pd.Series([f"the number {i * i} of many" for i in range(MANY_VALUES)]))


def test_numbers_stay_as_they_are():
    values = np.array([1e300, np.nan, 1 + 2**-52])
    table = pd.DataFrame({"x": values, "y": [1.0, 0.0, 1.0]})
    vectoriser = Vectoriser()
    assert_array_equal(vectoriser.fit_transform(table), np.stack([values, [1, 0, 1]], 1))
    assert vectoriser.origins_ == ["x", "y"]


def test_dates():
    table = pd.DataFrame({"day": DAYS})
    features = Vectoriser().fit_transform(table).to_numpy()
    # Year, month, day, hour, seconds, weekday from Monday.
    seconds = pd.Timestamp("2024-02-29 13:00").timestamp()
    assert_allclose(features[0], [2024, 2, 29, 13, seconds, 4], rtol=1e-7)
    assert np.isnan(features[1]).all()
    assert_allclose(features[2, [0, 1, 2, 3, 5]], [2019, 12, 31, 0, 2])


def test_categories():
    table = pd.DataFrame({"c": as_text(pd.Series(["b", "a", None, "b"]))})
    vectoriser = Vectoriser().fit(table)
    features = vectoriser.transform(table)
    assert isinstance(features["c"].dtype, pd.CategoricalDtype)
    assert features["c"].astype(object).where(features["c"].notna(), None).tolist() == ["b", "a", None, "b"]


def test_text_is_encoded_as_by_skrub():
    table = pd.DataFrame({"t": SENTENCES})
    features = Vectoriser(random_state=3).fit_transform(table)
    expected = StringEncoder(random_state=3).fit_transform(table["t"])
    assert_allclose(features, expected, atol=1e-5)


def test_origins_follow_the_order_of_the_features():
    table = pd.DataFrame(
        {
            "t": SENTENCES,
            "c": as_text(pd.Series(["a", "b"] * (MANY_VALUES // 2))),
            "x": np.arange(float(MANY_VALUES)),
            "d": pd.date_range("2024-01-01", periods=MANY_VALUES).astype("datetime64[us]"),
        }
    )
    vectoriser = Vectoriser().fit(table)
    features = vectoriser.transform(table)
    assert features.shape == (MANY_VALUES, len(vectoriser.origins_))
    assert {name: vectoriser.origins_.count(name) for name in "xdct"} == {"x": 1, "d": 5, "c": 1, "t": 30}
    for name in table.columns:  # changing a column changes its features and no others
        changed = table.assign(**{name: table[name].to_numpy()[::-1]})
        moved = (vectoriser.transform(changed).astype(object) != features.astype(object)).to_numpy().any(0)
        assert {vectoriser.origins_[i] for i in np.flatnonzero(moved)} == {name}


def test_a_single_row_of_nothing():
    vectoriser = Vectoriser().fit(pd.DataFrame({"t": SENTENCES}))
    nothing = pd.DataFrame({"t": as_text(pd.Series([None]))})
    assert np.isfinite(vectoriser.transform(nothing)).all(axis=None)


def test_text_encoder_keeps_arrays_only():
    sentences = SENTENCES.astype(object)
    encoder = TextEncoder(random_state=0)
    expected = encoder.fit_transform(sentences)
    state = encoder.__getstate__()
    assert "vectorizer_" not in state
    assert state["ngrams_"].dtype.kind == "U"
    again = pickle.loads(pickle.dumps(encoder))
    pd.testing.assert_frame_equal(again.transform(sentences), expected)
    assert not hasattr(pickle.loads(pickle.dumps(clone(encoder))), "ngrams_")
