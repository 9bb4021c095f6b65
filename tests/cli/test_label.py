"""``bayesvm label`` with answers from a pipe or a file, and what it does in Python."""

import io
import json
import re
import sys

import numpy as np
import pandas as pd
import pytest

import bayesvm as library
from bayesvm.active._label_file import LabelFile, standing
from bayesvm.active._labelling import Labelling, read_labels, row_checks
from bayesvm.tables import fit_table, read_table, write_table


def animals(n=60, seed=0):
    """Two numbers and a word that tell the species, three groups well apart."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "size": np.round(np.array([1.0, 5.0, 9.0])[kind] + rng.normal(0, 0.4, n), 3),
            "weight": np.round(np.array([2.0, 0.0, 2.0])[kind] + rng.normal(0, 0.4, n), 3),
            "place": rng.choice(["wood", "field"], n),
            "species": np.array(["ant", "bee", "cow"])[kind],
        }
    )


@pytest.fixture
def pool(here):
    """A pool without labels in a file, and the truth in another."""
    table = animals()
    write_table(table.drop(columns="species"), "pool.csv")
    write_table(table, "truth.csv")
    return table


@pytest.fixture
def piped(bayesvm, monkeypatch):
    """Run ``bayesvm label pool.csv`` with lines on its standard input."""

    def command(lines, *arguments, table="pool.csv"):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return bayesvm("label", table, "--target", "species", *arguments)

    return command


def said(path="pool.labels.csv"):
    with LabelFile(path, "species") as file:
        return file.entries


def answers(path="pool.labels.csv"):
    return [(entry.row, entry.label) for entry in standing(said(path))]


def test_answers_from_a_pipe(piped, pool, here):
    before = (here / "pool.csv").read_bytes()
    answer = piped(["ant", "bee", "1", "u", "cow", "s", "BEE"], "--output", "out.csv")
    assert answer.status == 0
    entries = said()
    assert [entry.mark for entry in entries] == ["label", "label", "label", "undo", "label", "skip", "label"]
    assert [entry.label for entry in entries] == ["ant", "bee", "ant", "", "cow", "", "bee"]
    assert entries[3].row == entries[2].row == entries[4].row
    assert len({entry.row for entry in entries}) == 5
    lines = answer.err.splitlines()
    assert lines[0] == "bayesvm: 'species' is a new column; no row has a label in the pool"
    assert lines[1] == f"bayesvm: row {entries[0].row + 1}: ant"
    assert re.fullmatch(rf"bayesvm: row {entries[2].row + 1}: ant \(believed [\d.]+ %\)", lines[3])
    assert lines[4] == f"bayesvm: row {entries[2].row + 1} was 'ant'; it is asked again"
    assert f"bayesvm: row {entries[5].row + 1}: skipped" in lines
    assert (here / "pool.csv").read_bytes() == before
    table = read_table("out.csv", target="species")
    assert len(table) == len(pool)
    filled = table["species"].dropna()
    assert filled.to_dict() == dict(answers_without_skips())
    assert "4 of 60 labelled, 4 of them now" in answer.out
    assert "1 row; --ask-skipped asks again" in answer.out
    assert answer.out.endswith("bayesvm fit out.csv --target species\n")
    assert sorted(entry.name for entry in here.iterdir()) == [
        "out.csv",
        "pool.csv",
        "pool.labels.csv",
        "truth.csv",
    ]


def answers_without_skips():
    return sorted((row, label) for row, label in answers() if label)


def test_going_on_is_automatic(bayesvm, pool, here):
    """Runs in parts never ask twice; the next question depends on what was said alone."""
    for part in (3, 1, 8):
        arguments = ["--oracle", "truth.csv", "--n-queries", part, "-q"]
        assert bayesvm("label", "pool.csv", "--target", "species", *arguments).status == 0
    found = answers()
    assert len(found) == len(dict(found)) == 12
    assert all(pool["species"][row] == label for row, label in found)
    table = pool.drop(columns="species")
    with Labelling(table, "species", "pool.labels.csv") as labelling:
        row = labelling.next_row()
        assert labelling.labels == dict(found)
    told = table.assign(species=pd.Series(dict(found)))
    with Labelling(told, "species", "other.csv") as labelling:
        assert labelling.next_row() == row


def test_labels_from_a_file_teach_the_model(bayesvm, pool, here):
    answer = bayesvm(
        *("label", "pool.csv", "--target", "species", "--oracle", "truth.csv", "--n-queries", 15),
        *("--model", "m.skops", "--json"),
    )
    assert answer.status == 0
    facts = answer.json
    assert (facts["rows"], facts["labelled"], facts["labelled_before"], facts["left"]) == (60, 15, 0, 45)
    assert sum(group["rows"] for group in facts["classes"]) == 15
    assert facts["model"] == "m.skops"
    assert facts["leave_one_out_accuracy"] > 0.8
    assert facts["interrupted"] is False
    model = library.load("m.skops")
    assert model["columns"].target == "species"
    labels = dict(answers())
    expected = fit_table(
        pool.assign(species=[labels.get(i) for i in range(60)]), "species", holdout=0
    ).pipeline
    np.testing.assert_allclose(model.predict_proba(pool), expected.predict_proba(pool))
    assert (model.predict(pool) == pool["species"]).mean() > 0.95


def test_the_whole_file_is_used_and_no_more(bayesvm, pool, here):
    known = pool.iloc[[4, 8, 15, 16, 23, 42]]
    labels = pd.DataFrame({"row": known.index + 1, "species": known["species"]})
    write_table(labels, "some.csv")
    answer = bayesvm("label", "pool.csv", "--target", "species", "--oracle", "some.csv", "--quiet")
    assert (answer.status, answer.out, answer.err) == (0, "", "")
    assert sorted(answers()) == list(known["species"].items())
    # What a first person said can be the second one's oracle.
    answer = bayesvm(
        *("label", "pool.csv", "-t", "species", "--oracle", "pool.labels.csv", "--labels", "b.csv", "-q")
    )
    assert answer.status == 0
    assert sorted(answers("b.csv")) == sorted(answers())


def test_labels_in_the_pool_count(piped, pool, here):
    table = pool.copy()
    table.loc[5:, "species"] = None
    write_table(table, "pool.parquet")
    answer = piped(["cow"], "--json", table="pool.parquet")
    assert answer.status == 0
    assert (answer.json["labelled"], answer.json["labelled_before"]) == (6, 5)
    assert len(said()) == 1
    assert said()[0].row >= 5
    # The undo of a new run takes back what an earlier one said, but nothing of the pool's own.
    answer = piped(["u", "u"], "--json", table="pool.parquet")
    assert answer.json["labelled"] == 5
    assert "there is nothing to take back" in answer.err
    # Labels that were carried over to the pool count once.
    piped(["cow"], table="pool.parquet")
    (entry,) = standing(said())
    table.loc[entry.row, "species"] = "ant"
    write_table(table, "pool.parquet")
    facts = piped([], "--json", table="pool.parquet").json
    assert facts["labelled"] == facts["labelled_before"] == 6
    assert facts["classes"] == [
        {"label": label, "rows": int(n)} for label, n in table["species"].value_counts().sort_index().items()
    ]


def test_classes_that_are_numbers_stay_numbers(bayesvm, piped, pool, here):
    table = pool.assign(species=pool["species"].map({"ant": 0, "bee": 1, "cow": 10}))
    write_table(table, "truth.csv")
    arguments = ["--oracle", "truth.csv", "-n", 14, "-o", "out.parquet", "-m", "m.skops", "-q"]
    assert bayesvm("label", "pool.csv", "--target", "species", *arguments).status == 0
    out = read_table("out.parquet")["species"]
    assert out.dropna().astype(int).to_dict() == table["species"][out.notna()].to_dict()
    assert library.load("m.skops").classes_.tolist() == [0, 1, 10]
    answer = piped(["1", "7"], "--classes", "0,1,10")
    assert answer.status == 2
    assert answers()[-1][1] == "1"
    assert answer.err.splitlines()[-1].startswith(
        "bayesvm: answer 2, '7', is not a class; the classes are 0, 1, 10"
    )


def test_two_classes_to_the_end_of_the_pool(bayesvm, pool, here):
    """Rows of a far corner, where bounds of their scores meet, are asked like any other."""
    table = pool.assign(species=np.where(pool["species"] == "cow", "cow", "none"))
    table = table.head(30)
    write_table(table, "truth.csv")
    write_table(table.drop(columns="species"), "pool.csv")
    arguments = ["--oracle", "truth.csv", "--quiet"]
    assert bayesvm("label", "pool.csv", "--target", "species", *arguments).status == 0
    assert dict(answers()) == dict(table["species"].items())


def test_given_classes_are_the_only_ones_in_a_pipe(piped, pool, here):
    answer = piped(["ant", "", "3", "bird"], "--classes", "ant, bee,cow", "-q")
    assert answer.status == 2
    assert answer.err == (
        "bayesvm: answer 4, 'bird', is not a class; the classes are ant, bee, cow. The answers before it are "
        "saved in pool.labels.csv\n"
    )
    assert [label for _, label in answers()] == ["ant", "cow"]
    assert piped(["4"], "--classes", "ant,bee,cow", "-q").status == 2


def test_the_number_of_answers_is_kept(piped, pool, here):
    assert piped(["ant"] * 5, "-n", 2, "-q").status == 0
    assert len(answers()) == 2
    assert piped(["s", "ant", "u", "ant", "ant", "ant"], "-n", 2, "-q").status == 0
    assert len(answers_without_skips()) == 4
    assert piped(["ant"], "-n", 0, "-q", "-o", "out.csv").status == 0
    assert read_table("out.csv", target="species")["species"].notna().sum() == 4
    assert piped(["q", "ant"], "-q").status == 0
    assert len(answers_without_skips()) == 4


def test_a_pool_has_an_end(piped, pool, here):
    write_table(pool.head(4).drop(columns="species"), "few.csv")
    answer = piped(["ant", "s", "bee", "ant", "ant"], table="few.csv")
    assert answer.status == 0
    assert "no row is left to ask about" in answer.err
    assert "--ask-skipped asks again" in answer.out
    before = answers("few.labels.csv")
    assert "it is asked again" in piped(["u", before[-1][1]], table="few.csv").err
    assert answers("few.labels.csv") == before
    skipped = [row for row, label in answers("few.labels.csv") if not label]
    assert len(answers("few.labels.csv")) == 4
    answer = piped(["cow", "ant"], "--ask-skipped", table="few.csv")
    assert dict(answers("few.labels.csv"))[skipped[0]] == "cow"
    assert "4 of 4 labelled, 1 of them now" in answer.out
    assert "bayesvm label few.csv --target species\n" not in answer.out


def test_a_model_needs_two_classes(piped, pool, here):
    answer = piped(["ant", "ant"], "--model", "m.skops", "--output", "out.csv")
    assert answer.status == 2
    assert answer.err.splitlines()[-1].startswith(
        "bayesvm: no model was fitted: the target 'species' is always"
    )
    assert not (here / "m.skops").exists()
    assert read_table("out.csv", target="species")["species"].notna().sum() == 2
    assert "leave-one-out" not in answer.out


def test_a_pool_that_changed_is_noticed(piped, pool, here):
    assert piped(["ant", "bee", "cow"], "-q").status == 0
    before = answers()
    table = pool.drop(columns="species")
    write_table(pd.concat([table, table.head(3)]), "pool.csv")  # more rows at the end
    assert piped([], "-q").status == 0
    write_table(table.iloc[::-1], "pool.csv")
    answer = piped(["ant"])
    assert answer.status == 2
    assert re.search(r"row \d+ of the pool is not what it was when it was labelled", answer.err)
    write_table(table.assign(note="new"), "pool.csv")
    assert piped([], "-q").status == 2
    assert piped([], "-q", "--rows-unchanged").status == 0
    assert piped([], "-q").status == 0  # once is enough
    assert answers() == before
    write_table(table.head(2), "pool.csv")
    answer = piped([])
    assert answer.status == 2
    assert "has an answer about row" in answer.err


REFUSALS = [
    (["--policy", "margins"], "--policy 'margins' is not known; did you mean 'margin'?"),
    (["--classes", "a,,b"], "--classes 'a,,b' has an empty name"),
    (["--classes", "a,b,a"], "--classes names 'a' twice"),
    (["--columns", "sise"], "there is no column 'sise' to show; did you mean 'size'?"),
    (["--ignore", "plase"], "there is no column 'plase' to ignore; did you mean 'place'?"),
    (["--labels", "pool.csv"], "--labels 'pool.csv' is the pool already"),
    (["--output", "pool.csv"], "--output 'pool.csv' is the pool already"),
    (["--output", "pool.labels.csv"], "--output 'pool.labels.csv' is --labels already"),
    (["--output", "out.xlsx"], "is not named like a table"),
    (["--output", "no/out.csv"], "does not exist; create it first"),
    (["--model", "."], "is a folder"),
    (["--oracle", "truths.csv"], "there is no file 'truths.csv'; did you mean 'truth.csv'?"),
    (["--oracle", "truth.csv", "--labels", "truth.csv"], "is --oracle already"),
    (["--oracle", "other.csv"], "'other.csv' has no column 'species'"),
    (["--oracle", "short.csv"], "has 5 rows and the pool 60; give as many, or a column 'row'"),
    (["--oracle", "beyond.csv"], "labels row 61, but the pool has rows 1 to 60"),
    (["--oracle", "odd.csv"], "the column 'row' holds 'x'; give whole numbers from 1"),
    (["--labels", "truth.csv"], "is not a label file written by 'bayesvm label'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSALS, ids=[" ".join(a) for a, _ in REFUSALS])
def test_refusals_come_before_questions(piped, pool, here, arguments, message):
    write_table(pool[["size"]], "other.csv")
    write_table(pool.head(5), "short.csv")
    write_table(pool.head(2).assign(row=[1, 61]), "beyond.csv")
    write_table(pool.head(2).assign(row=["x", "1"]), "odd.csv")
    before = {entry.name: entry.read_bytes() for entry in here.iterdir()}
    answer = piped(["ant"], *arguments)
    assert (answer.status, answer.out) == (2, "")
    assert message in answer.err.splitlines()[-1]
    assert {entry.name: entry.read_bytes() for entry in here.iterdir()} == before


def test_a_row_asked_is_the_one_the_policy_names(pool, here):
    """The row of the largest variation ratio under a model of the labels so far."""
    with Labelling(pool.drop(columns="species"), "species", "a.csv") as labelling:
        while len(labelling.labels) < 8:
            row = labelling.next_row()
            labelling.answer(row, pool["species"][row])
        row = labelling.next_row()
        estimator, X = labelling._learner.estimator_, labelling._X
        ratio = estimator.variation_ratio(X)
        ratio[list(labelling.labels)] = -1.0
        assert row == ratio.argmax()
        belief = labelling.belief(row)
        np.testing.assert_allclose(belief.probabilities, estimator.predict_proba(X[[row]])[0])
        assert belief.classes == ("ant", "bee", "cow")
        assert belief.best == belief.classes[belief.probabilities.argmax()]
        assert belief.of("dog") == 0.0
        known = pool.iloc[list(labelling.labels)]
        right = estimator.loo_proba_  # of the last row told; the score is of all of them
        assert right.shape == (1, 3)
        assert labelling.leave_one_out_accuracy == estimator.loo_score_
        assert labelling.counts == dict(known["species"].value_counts())


def test_undo_asks_the_same_row_again_and_unlearns(pool, here):
    with Labelling(pool.drop(columns="species"), "species", "a.csv") as labelling:
        for _ in range(6):
            row = labelling.next_row()
            labelling.answer(row, pool["species"][row])
        row = labelling.next_row()
        before = labelling.belief(row).probabilities
        labelling.answer(row, "dog")
        assert labelling.classes[-1] == "dog"
        assert labelling.belief(row).of("dog") > 0.0
        assert labelling.undo().label == "dog"
        assert labelling.next_row() == row
        labelling.skip(row)
        assert labelling.next_row() != row
        with pytest.raises(ValueError, match="cannot be answered"):
            labelling.answer(row, "ant")
        assert labelling.undo().mark == "skip"
        labelling.answer(row, pool["species"][row])
    with Labelling(pool.drop(columns="species"), "species", "b.csv") as again:
        for entry in standing(said("a.csv"))[:-1]:
            again.answer(entry.row, entry.label)
        assert again.next_row() == row
        np.testing.assert_allclose(again.belief(row).probabilities, before, atol=1e-6)


def test_a_new_class_is_learned(pool, here):
    with Labelling(pool.drop(columns="species"), "species", "a.csv") as labelling:
        truth = pool["species"]
        for row in [*np.flatnonzero(truth == "ant")[:5], *np.flatnonzero(truth == "bee")[:5]]:
            labelling.answer(int(row), truth[row])
        cows = np.flatnonzero(truth == "cow")
        assert labelling.belief(int(cows[-1])).classes == ("ant", "bee")
        for row in cows[:5]:
            labelling.answer(int(row), "cow")
        belief = labelling.belief(int(cows[-1]))
        assert belief.best == "cow"
        assert labelling.classes == ["ant", "bee", "cow"]


def test_what_is_shown_of_a_row(pool, here):
    table = pool.assign(when=pd.Timestamp("2024-05-01"), gap=None, whole=[1.0] * 60)
    with Labelling(table.drop(columns="species"), "species", "a.csv") as labelling:
        shown = labelling.shown(3)
        assert list(shown) == ["size", "weight", "place", "when", "gap", "whole"]
        assert (shown["when"], shown["gap"], shown["whole"]) == ("2024-05-01", "", "1")
        assert labelling.shown(3, ["place"]) == {"place": pool["place"][3]}


def test_row_checks_see_values_and_nothing_else(pool):
    checks = row_checks(pool, "species", range(60))
    assert len(set(checks)) == 60
    assert row_checks(pool.iloc[::-1], "species", [0]) == checks[-1:]
    assert row_checks(pool.assign(species="x"), "species", range(60)) == checks
    changed = pool.copy()
    changed.loc[3, "place"] = "sea"
    new = row_checks(changed, "species", range(60))
    assert [i for i in range(60) if new[i] != checks[i]] == [3]
    numbers = pd.DataFrame({"a": [1, 2]})
    assert row_checks(numbers, "y", [0]) == row_checks(pd.DataFrame({"a": [1.0, None]}), "y", [0])


def test_truth_values_and_codes_keep_what_they_are(here):
    table = pd.DataFrame({"x": np.arange(8.0), "y": [True, False, None, None, True, None, None, False]})
    with Labelling(table, "y", "a.csv") as labelling:
        labelling.answer(2, "True")
        out = labelling.labelled_table()["y"]
        assert out.dropna().to_dict() == {0: True, 1: False, 2: True, 4: True, 7: False}
        assert out.isna().sum() == 3
    codes = pd.DataFrame({"x": np.arange(3.0), "y": pd.Series(["007", "7", None], dtype=object)})
    with Labelling(codes, "y", "b.csv") as labelling:
        assert labelling.labelled_table()["y"].tolist()[:2] == ["007", "7"]


def test_labels_by_row_number_and_in_order(pool, here):
    write_table(pool[["species"]], "a.csv")
    assert read_labels("a.csv", "species", pool) == dict(pool["species"].items())
    write_table(pd.DataFrame({"row": [3, 1], "species": ["ant", None]}), "b.csv")
    assert read_labels("b.csv", "species", pool) == {2: "ant"}
    # As many rows as the pool, in another order: the numbers count, unless they are the pool's own.
    mixed = pool.sample(frac=1.0, random_state=0)
    mixed = mixed.assign(row=mixed.index + 1)
    write_table(mixed[["row", "species"]], "c.csv")
    assert read_labels("c.csv", "species", pool) == dict(pool["species"].items())
    assert read_labels("c.csv", "species", mixed) == dict(enumerate(mixed["species"]))


def test_answers_of_somebody_else(piped, pool, here):
    piped(["ant", "bee", "u", "cow"], "-q")
    expected = dict(answers())
    with LabelFile("pool.labels.csv", "species"):  # they are still at it
        assert read_labels("pool.labels.csv", "species", pool) == expected
    # Saved by a spreadsheet.
    lines = (here / "pool.labels.csv").read_bytes()
    (here / "theirs.csv").write_bytes(b"\xef\xbb\xbf" + lines.replace(b"\n", b"\r\n"))
    assert read_labels("theirs.csv", "species", pool) == expected
    # About another pool.
    other = pool.iloc[::-1].reset_index(drop=True)
    with pytest.raises(ValueError, match="is not what it was when it was labelled"):
        read_labels("pool.labels.csv", "species", other)
    assert read_labels("pool.labels.csv", "species", other, rows_unchanged=True) == expected


def test_json_is_all_there_is_on_standard_output(piped, pool, here):
    answer = piped(["ant", "bee", "ant"], "--json", "--policy", "margin", "--seed", 3)
    facts = json.loads(answer.out)
    assert facts["policy"] == "margin"
    assert facts["notes"] == []
    assert facts["labels"] == "pool.labels.csv"
    assert facts["output"] is None
    assert facts["skipped"] == 0
