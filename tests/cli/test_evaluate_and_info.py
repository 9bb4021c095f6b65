"""``bayesvm evaluate`` and ``bayesvm info``, of models from tables and of others."""

import re

import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesvm as library
from bayesvm.tables import evaluate_table, read_table, write_table
from tests.estimators.data import FAST, three_blobs


@pytest.fixture
def model(workshop):
    return workshop / "animals.skops"


@pytest.fixture
def plain(here):
    """A model that knows nothing of tables, and one that knows names; a table for both."""
    X, y = three_blobs()
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    library.save(library.BayesianSVC(**FAST).fit(X, y), "plain.skops")
    library.save(make_pipeline(StandardScaler(), library.BayesianSVC(**FAST)).fit(table, y), "named.skops")
    write_table(table, "numbers.csv")
    return X


def test_evaluate(bayesvm, model, workshop):
    answer = bayesvm("evaluate", model, workshop / "new.csv", "--abstain", 0.1)
    assert (answer.status, answer.err) == (0, "")
    for words in ("How good", "new table, 40 rows", "accuracy", "log-loss", "Brier", "calibration error"):
        assert words in answer.out
    assert "is cow" in answer.out
    assert "said cow" in answer.out
    assert re.search(r"answers at 10 % error +100 %, right in", answer.out)
    facts = bayesvm("evaluate", model, workshop / "new.csv", "--json", "--abstain", 0.1).json
    expected = evaluate_table(library.load(model), read_table(workshop / "new.csv"))
    assert facts["accuracy"]["value"] == expected.accuracy.value
    assert facts["log_loss"]["value"] == pytest.approx(expected.log_loss.value)
    assert facts["confusion"] == expected.confusion.tolist()
    assert facts["abstention"]["max_error"] == 0.1
    assert facts["notes"] == []


def test_evaluate_says_which_rates_the_rows_are_too_few_for(bayesvm, model, workshop):
    """The 118 rows of the fit, each left out, do not support one error in a hundred."""
    why = (
        "at least 230 rows to judge by, so no row is answered; the smallest rate that 118 can promise is 0.01"
    )
    one_percent = ("evaluate", model, workshop / "new.csv", "--abstain", 0.01)
    answer = bayesvm(*one_percent)
    assert re.search(r"answers at 1 % error +none", answer.out)
    assert why in answer.err
    facts = bayesvm(*one_percent, "--json").json
    assert facts["abstention"]["max_error"] == 0.01
    assert (facts["abstention"]["threshold"], facts["abstention"]["answered"]) == (None, 0.0)
    assert [why in note for note in facts["notes"]] == [True]


def test_labels_never_seen_are_counted(bayesvm, model, workshop, here):
    table = read_table(workshop / "new.csv")
    table.loc[:2, "species"] = "yak"
    table.loc[3, "species"] = None
    write_table(table, "odd.csv")
    answer = bayesvm("evaluate", model, "odd.csv")
    assert answer.status == 0
    assert "new table, 36 rows" in answer.out
    assert "3 rows  with the label 'yak', which the model has never seen" in answer.out
    assert "1 row   without species" in answer.out
    assert bayesvm("evaluate", model, "odd.csv", "--json").json["rows_with_unseen_label"] == {"yak": 3}


def test_training_rows_are_told(bayesvm, model, workshop):
    answer = bayesvm("evaluate", model, workshop / "animals.csv")
    assert "118 of 118 rows are among those the model was trained on" in answer.err


def test_evaluate_needs_the_target(bayesvm, model, workshop, here, plain):
    write_table(read_table(workshop / "new.csv").drop(columns="species"), "part.csv")
    answer = bayesvm("evaluate", model, "part.csv")
    assert answer.status == 2
    assert "no column 'species', which the model predicts" in answer.err
    answer = bayesvm("evaluate", "plain.skops", "numbers.csv")
    assert answer.status == 2
    assert "records no target column" in answer.err


def test_info(bayesvm, model, workshop):
    answer = bayesvm("info", model)
    assert (answer.status, answer.err) == (0, "")
    for words in ("predicts  species", "held out", "leave-one-out", "0.1*rbf + anova", "scikit-learn"):
        assert words in answer.out
    assert f"bayesvm.load('{model}')" in answer.out
    assert "model.predict_proba(read_table('NEW_TABLE.csv', model=model))" in answer.out
    facts = bayesvm("info", model, "--json").json
    loaded = library.load(model)
    assert facts["target"] == "species"
    assert facts["rows"] == 118
    assert facts["columns"] == loaded["columns"].kinds_
    assert facts["leave_one_out"]["accuracy"] == loaded["model"].loo_score_
    assert facts["held_out"]["rows"] == 24
    assert facts["versions"]["bayesvm"] == library.__version__
    assert sum(facts["relevance"].values()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["plain.skops", "named.skops"])
def test_models_that_bayesvm_fit_did_not_make(bayesvm, plain, name):
    answer = bayesvm("info", name)
    assert answer.status == 0
    assert "classes  0, 1, 2" in answer.out
    assert "Columns" not in answer.out
    assert bayesvm("info", name, "--json").json["relevance"] is None
    answer = bayesvm("predict", name, "numbers.csv")
    assert answer.status == 0
    expected = library.load("plain.skops").predict(plain)
    assert [int(line.split(",")[1]) for line in answer.out.splitlines()[1:]] == expected.tolist()
