"""Models fitted from Python predict the rows of tables as those of tables do."""

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from bayesvm import BayesianSVC
from bayesvm.tables import TableError, open_blocks, predict_blocks, predict_table, read_table, write_table

from .data import FAST

X = np.random.default_rng(0).normal(size=(40, 2))
TABLE = pd.DataFrame({"id": [f"r{i}" for i in range(40)], "b": X[:, 1], "a": X[:, 0], "label": X[:, 0] > 0})


@pytest.fixture(scope="module")
def model():
    return BayesianSVC(**FAST).fit(TABLE[["a", "b"]], TABLE["label"])


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_blocks_for_an_estimator_by_itself(model, tmp_path, name):
    """It takes its own columns out of the table, in its own order."""
    write_table(TABLE, tmp_path / name)
    out = pd.concat(predict_blocks(model, open_blocks(tmp_path / name, model=model)))
    np.testing.assert_allclose(out.filter(like="probability_"), model.predict_proba(TABLE[["a", "b"]]))
    pd.testing.assert_frame_equal(predict_table(model, read_table(tmp_path / name, model=model)), out)


def test_what_is_lacking_is_named(model):
    with pytest.raises(TableError, match="no column 'a', which the model needs"):
        predict_table(model, TABLE.drop(columns="a"))
    with pytest.raises(TableError, match="column 'a' has other or missing values"):
        predict_table(model, TABLE.assign(a=TABLE["a"].where(TABLE.index != 3)))


def test_names_are_not_needed():
    plain = BayesianSVC(**FAST).fit(X, X[:, 0] > 0)
    out = predict_table(plain, pd.DataFrame(X, columns=["u", "v"]))
    np.testing.assert_array_equal(out["prediction"], plain.predict(X))
    with pytest.raises(TableError, match="2 columns without names, the table has 4"):
        predict_table(plain, TABLE)


def test_steps_before_a_model_see_the_values_as_they_are():
    pipeline = make_pipeline(SimpleImputer(), BayesianSVC(**FAST)).fit(TABLE[["a", "b"]], TABLE["label"])
    gaps = TABLE.assign(a=TABLE["a"].where(TABLE.index != 3))
    np.testing.assert_array_equal(
        predict_table(pipeline, gaps)["prediction"], pipeline.predict(gaps[["a", "b"]])
    )
