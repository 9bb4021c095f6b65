"""Pipelines of tables are saved whole and small, and loading trusts what was reviewed, nothing else."""

import json
import os
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

import bayesvm
from bayesvm._persistence import trusted_types
from bayesvm.tables import column_relevance, example_table, predict_table, table_classifier

from .data import FAST, mixed_table

skops_io = pytest.importorskip("skops.io", reason="saving needs the extra 'io'")


def tables():
    mixed = mixed_table()
    yield "mixed", mixed, mixed["species"]
    yield "numbers", mixed[["legs", "id"]], mixed["flies"].to_numpy()
    yield "text", mixed[["note"]], mixed["legs"].to_numpy()
    yield "few words", pd.DataFrame({"w": [f"{i % 41}" + "x" for i in range(82)]}), np.arange(82) % 2
    yield "dates", mixed[["seen", "found", "zoned"]], mixed["species"]
    yield "categories", mixed[["colour", "grade", "flies"]], mixed["species"]
    penguins = example_table().dropna(subset="Sex")
    yield "penguins", penguins, penguins["Sex"]


@pytest.fixture(scope="module", params=list(tables()), ids=lambda case: case[0])
def case(request):
    _, table, y = request.param
    return table, table_classifier("y", **FAST).fit(table, np.asarray(y))


def predicted(pipeline, table):
    """Predictions at a rate, and what is said where the rows do not support it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", bayesvm.TooFewRowsWarning)
        return predict_table(pipeline, table, 0.1), [str(warning.message) for warning in said]


def test_round_trip(case, tmp_path):
    table, pipeline = case
    path = bayesvm.save(pipeline, tmp_path / "model.skops")
    again = bayesvm.load(path)
    (found, said), (expected, said_before) = predicted(again, table), predicted(pipeline, table)
    pd.testing.assert_frame_equal(found, expected)
    assert said == said_before
    pd.testing.assert_series_equal(column_relevance(again), column_relevance(pipeline))
    fitted = {name: value for name, value in vars(pipeline["columns"]).items() if name.endswith("_")}
    assert {name: getattr(again["columns"], name) for name in fitted} == fitted


def test_nothing_is_trusted_that_no_table_needs(tmp_path):
    needed = set()
    for name, table, y in tables():
        path = tmp_path / f"{name}.skops"
        bayesvm.save(table_classifier("y", **FAST).fit(table, np.asarray(y)), path)
        needed |= set(skops_io.get_untrusted_types(file=path))
    needed |= {"numpy.dtype"}  # of scikit-learn's imputer, in pipelines of one's own
    assert {name for name in trusted_types() if not name.startswith("bayesvm.")} <= needed
    assert needed <= set(trusted_types())


def schema_size(path):
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo("schema.json").file_size


def test_text_does_not_blow_up_the_file(tmp_path):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 7)) for _ in range(2000)]
    table = pd.DataFrame({"text": [" ".join(rng.choice(words, 12)) for _ in range(300)]})
    pipeline = table_classifier("y", n_inducing=20, **FAST).fit(table, np.arange(300) % 2)
    assert len(pipeline["vectoriser"].text_encoders_["text"].ngrams_) > 10_000
    path = bayesvm.save(pipeline, tmp_path / "model.skops")
    assert schema_size(path) < 300_000
    again = bayesvm.load(path)
    np.testing.assert_array_equal(again.predict_proba(table), pipeline.predict_proba(table))


def test_wide_tables_make_files_in_proportion(tmp_path):
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.choice(["a", "b", "c"], 40) for i in range(100)}
    sizes = []
    for n in (50, 100):
        table = pd.DataFrame(dict(list(columns.items())[:n]))
        pipeline = table_classifier("y", n_inducing=10, **FAST).fit(table, np.arange(40) % 2)
        sizes.append(schema_size(bayesvm.save(pipeline, tmp_path / "model.skops")))
    assert sizes[1] < 2.1 * sizes[0]
    assert sizes[1] - sizes[0] < 50 * 10_000  # a column takes less than 10 kB


def a_date_encoder_becomes(value):
    """What a forger does: a part of the model becomes something else."""

    def change(node):
        if isinstance(node, dict):
            for name, child in node.items():
                if isinstance(child, dict) and child.get("__class__") == "DatetimeEncoder":
                    node[name] = value
                else:
                    change(child)
        elif isinstance(node, list):
            for child in node:
                change(child)

    return change


FORGED = {
    "function": {
        "__class__": "function",
        "__module__": "os",
        "__loader__": "FunctionNode",
        "__id__": 1,
        "content": {"module_path": "os", "function": "system"},
    },
    "type": {"__class__": "Popen", "__module__": "subprocess", "__loader__": "TypeNode", "__id__": 1},
    "call": {
        "__class__": "system",
        "__module__": "os",
        "__loader__": "ConstructorFromReduceNode",
        "__id__": 1,
        "content": {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": []},
    },
    "object": {"__class__": "Popen", "__module__": "subprocess", "__loader__": "ObjectNode", "__id__": 1},
}


@pytest.mark.parametrize("how", FORGED)
def test_forged_files_are_refused(how, tmp_path):
    table = mixed_table()
    path = bayesvm.save(table_classifier("y", **FAST).fit(table, table["species"]), tmp_path / "model.skops")
    forged = tmp_path / "forged.skops"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(forged, "w") as other:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                a_date_encoder_becomes(FORGED[how])(schema)
                content = json.dumps(schema).encode()
            other.writestr(name, content)
    with pytest.raises(ValueError, match=r"does not trust: \['(os|subprocess)\."):
        bayesvm.load(forged)


def test_methods_are_refused(tmp_path):
    """Bound methods could do anything that a trusted object can."""
    path = tmp_path / "method.skops"
    skops_io.dump({"run": mixed_table_model()._options}, path)
    with pytest.raises(ValueError, match=r"does not trust.*BayesianSVC\._options"):
        bayesvm.load(path)
    skops_io.dump({"run": mixed_table_model().fit}, path)  # inherited: skops takes it for a forgery
    with pytest.raises(ValueError, match="is not a model file"):
        bayesvm.load(path)


def mixed_table_model():
    return bayesvm.BayesianSVC(**FAST)


def test_other_transformers_are_refused(tmp_path):
    from sklearn.preprocessing import FunctionTransformer

    pipeline = table_classifier("y").set_params(vectoriser=FunctionTransformer(os.system))
    path = bayesvm.save(pipeline, tmp_path / "model.skops")
    with pytest.raises(ValueError, match=r"does not trust.*system"):
        bayesvm.load(path)
