"""Features of each kind of column, against what they should be."""

import pickle

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from skrub import StringEncoder

from bayesvm.tables._kinds import MANY_VALUES, as_text
from bayesvm.tables._pipeline import Vectoriser
from bayesvm.tables._text import TextEncoder

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
    features = Vectoriser().fit_transform(table)
    # Year, month, day, hour, seconds, weekday from Monday.
    seconds = pd.Timestamp("2024-02-29 13:00").timestamp()
    assert_allclose(features[0], [2024, 2, 29, 13, seconds, 4], rtol=1e-7)
    assert np.isnan(features[1]).all()
    assert_allclose(features[2, [0, 1, 2, 3, 5]], [2019, 12, 31, 0, 2])


def test_categories():
    table = pd.DataFrame({"c": as_text(pd.Series(["b", "a", None, "b"]))})
    vectoriser = Vectoriser().fit(table)
    assert_array_equal(vectoriser.transform(table), [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    unseen = pd.DataFrame({"c": as_text(pd.Series(["z"]))})
    assert_array_equal(vectoriser.transform(unseen), [[0, 0, 0]])


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
    assert {name: vectoriser.origins_.count(name) for name in "xdct"} == {"x": 1, "d": 5, "c": 2, "t": 30}
    for name in table.columns:  # changing a column changes its features and no others
        changed = table.assign(**{name: table[name].to_numpy()[::-1]})
        moved = (vectoriser.transform(changed) != features).any(0)
        assert {vectoriser.origins_[i] for i in np.flatnonzero(moved)} == {name}


def test_a_single_row_of_nothing():
    vectoriser = Vectoriser().fit(pd.DataFrame({"t": SENTENCES}))
    nothing = pd.DataFrame({"t": as_text(pd.Series([None]))})
    assert np.isfinite(vectoriser.transform(nothing)).all()


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
