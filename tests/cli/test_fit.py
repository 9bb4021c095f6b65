"""``bayesvm fit``: files, summary, JSON, and refusals before any work is done."""

import importlib
import json
import os
import re
import signal

import numpy as np
import pytest

import bayesvm as library
from bayesvm.tables import example_table, fit_table, read_table, write_table
from tests.tables.data import mixed_table


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_it_writes_a_model_and_a_report(workshop):
    assert names(workshop) == ["animals.csv", "animals.html", "animals.skops", "new.csv", "new.parquet"]
    model = library.load(workshop / "animals.skops")
    assert model.predict(read_table(workshop / "new.csv")).shape == (40,)
    page = (workshop / "animals.html").read_text(encoding="utf-8")
    assert "animals.csv" in page


def test_it_is_what_python_does(workshop):
    table = read_table(workshop / "animals.csv")
    expected = fit_table(table, "species").pipeline
    model = library.load(workshop / "animals.skops")
    np.testing.assert_array_equal(model.predict_proba(table), expected.predict_proba(table))
    assert not getattr(model["model"], "_skl_callbacks", ())


def test_quiet_and_no_report(bayesvm, here, workshop):
    answer = bayesvm("fit", workshop / "animals.csv", "-t", "species", "-q", "--no-report", "--holdout", 0)
    assert (answer.status, answer.out, answer.err) == (0, "", "")
    assert names(here) == ["animals.skops"]


def test_summary_and_json(bayesvm, here):
    table = mixed_table(60).assign(dose=["1"] * 56 + ["low"] * 4)
    table.loc[5, "species"] = None
    write_table(table, here / "t.csv.gz")
    options = [
        "--inducing",
        20,
        "--ignore",
        "note",
        "--ignore",
        "id",
        "--model",
        "a.skops",
        "--report",
        "b.html",
    ]
    answer = bayesvm("fit", "t.csv.gz", "--target", "species", *options)
    assert answer.status == 0
    headings = [line for line in answer.out.splitlines() if line and not line.startswith(" ")]
    assert headings[:2] == ["Data", "How good"]
    assert headings[-3:] == ["What matters", "Written", "Next"]
    assert "t.csv.gz, 59 rows" in answer.out
    assert "1 row without species" in answer.out
    assert "held out, 12 rows" in answer.out
    assert "note (not wanted), id (not wanted)" in answer.out
    assert "bayesvm predict a.skops NEW_TABLE.csv --abstain 0.05" in answer.out
    assert "\x1b" not in answer.out
    assert answer.err == (
        "bayesvm: note: column 'dose': 4 values such as 'low' do not fit a column of kind 'number' and count "
        "as missing\n"
    )
    assert names(here) == ["a.skops", "b.html", "t.csv.gz"]

    answer = bayesvm("fit", "t.csv.gz", "--target", "species", *options, "--json", "--seed", 1)
    facts = answer.json
    assert answer.err == ""
    assert (facts["rows"], facts["rows_without_label"], facts["model"]) == (59, 1, "a.skops")
    assert facts["ignored"] == {"note": "not wanted", "id": "not wanted"}
    assert facts["columns"]["dose"] == "number"
    assert facts["held_out"]["rows"] == 12
    assert facts["leave_one_out"]["rows"] == 59
    assert sum(group["rows"] for group in facts["classes"]) == 59
    assert sum(facts["relevance"].values()) == pytest.approx(1.0)
    assert facts["abstention"]["max_error"] == 0.05
    assert len(facts["notes"]) == 1
    assert facts["interrupted"] is False
    assert library.load("a.skops")["model"].n_inducing == 20


def test_many_classes_and_numbers_as_labels(bayesvm, here):
    rng = np.random.default_rng(0)
    table = mixed_table(120)[["size (cm)"]].assign(kind=rng.integers(0, 12, 120))
    write_table(table, "t.tsv")
    answer = bayesvm("fit", "t.tsv", "--target", "kind", "--json", "--no-report")
    assert [group["label"] for group in answer.json["classes"]] == list(range(12))
    answer = bayesvm("evaluate", "t.skops", "t.tsv")
    assert "Most frequent mistakes" in answer.out


def test_no_table_means_the_bundled_one(bayesvm, here):
    assert bayesvm("fit", "--quiet", "--no-report").status == 0
    assert names(here) == ["penguins.skops"]
    assert library.load("penguins.skops")["columns"].target == "Sex"
    answer = bayesvm("predict", "penguins.skops")
    assert answer.status == 0
    assert len(answer.out.splitlines()) == 1 + len(example_table())
    assert bayesvm("evaluate", "penguins.skops", "--json").json["rows"] == 333


REFUSALS = [
    ([], "which column should be predicted? Give --target; the columns are 'size (cm)', 'legs',"),
    (["--target", "Species"], "no column 'Species'; did you mean 'species'?"),
    (["--target", "species", "--ignore", "colr"], "did you mean 'colour'?"),
    (["--target", "species", "--model", "no/where.skops"], "does not exist; create it first"),
    (["--target", "species", "--model", "."], "is a folder; give the name of a file"),
    (["--target", "species", "--model", "t.csv"], "is the table already; give another name"),
    (["--target", "species", "--model", "a", "--report", "a"], "is --model already; give another name"),
    (["--target", "species", "--no-overwrite"], "'t.skops' exists; give another name"),
    (["--target", "species", "--report", "r.html", "--no-report"], "contradict each other"),
    (["--target", "species", "--abstain", "1"], "--abstain 1 is not valid"),
    (["--target", "species", "--holdout", "1"], "holdout=1.0 is not valid"),
    (["--target", "species", "--inducing", "0"], "Invalid value for '--inducing'"),
    (["--target", "species", "--holdout", "many"], "Invalid value for '--holdout'"),
    (["--traget", "species"], "No such option: --traget"),
    (["--target", "species", "extra"], "unexpected extra argument"),
]


@pytest.mark.parametrize(("options", "message"), REFUSALS, ids=[r[1][:30] for r in REFUSALS])
def test_refusals(bayesvm, here, options, message):
    write_table(mixed_table(), here / "t.csv")
    (here / "t.skops").write_text("precious")
    answer = bayesvm("fit", "t.csv", *options)
    assert answer.status == 2
    assert answer.out == ""
    assert answer.err.startswith("bayesvm: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err
    assert names(here) == ["t.csv", "t.skops"]
    assert (here / "t.skops").read_text() == "precious"


def test_ctrl_c_leaves_nothing(bayesvm, here, monkeypatch):
    write_table(mixed_table(), here / "t.csv")

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("bayesvm.tables._fitting.table_classifier", interrupted)
    answer = bayesvm("fit", "t.csv", "--target", "species")
    assert (answer.status, answer.out, answer.err) == (130, "", "bayesvm: interrupted\n")
    assert names(here) == ["t.csv"]


def test_interrupted_fits_are_saved_and_told(bayesvm, here, monkeypatch):
    from bayesvm._cli.terminal import FitProgress

    def press_ctrl_c(self, estimator, context):
        if context.task_name == "kernel":
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(FitProgress, "on_fit_task_end", press_ctrl_c)
    write_table(mixed_table(), here / "t.csv")
    answer = bayesvm("fit", "t.csv", "--target", "species", "--json")
    assert answer.status == 130
    assert answer.json["interrupted"] is True
    assert (answer.json["rows"], answer.json["rows_learned"]) == (120, 96)
    assert "the best model so far is saved in t.skops" in answer.err
    assert bayesvm("info", "t.skops", "--json").json["interrupted"] is True
    assert "Ctrl-C" in bayesvm("info", "t.skops").out
    assert "learned from  96 rows" in bayesvm("fit", "t.csv", "--target", "species").out


@pytest.mark.parametrize(
    "place", ["bayesvm.save", "bayesvm.report.find_pitfalls", "bayesvm.report.write_report"]
)
def test_ctrl_c_after_the_fit_keeps_the_model(bayesvm, here, monkeypatch, place):
    """Saving is not cut, and whatever comes after it is given up."""
    module, _, name = place.rpartition(".")
    module = importlib.import_module(module)
    original = getattr(module, name)

    def interrupted(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, interrupted)
    write_table(mixed_table(60), here / "t.csv")
    answer = bayesvm("fit", "t.csv", "--target", "species", "--holdout", 0)
    message = "bayesvm: interrupted; the model is saved in t.skops\n"
    assert (answer.status, answer.out, answer.err) == (130, "", message)
    assert names(here) == ["t.csv", "t.skops"]
    assert not library.load("t.skops")["model"].interrupted_


def test_few_rows_have_no_intervals(bayesvm, here):
    write_table(mixed_table(40), here / "t.csv")
    answer = bayesvm("fit", "t.csv", "--target", "species", "--no-report")
    accuracy = next(line for line in answer.out.splitlines() if line.strip().startswith("accuracy"))
    assert re.search(r"% \(-\) .*% \([\d.]+ to ", accuracy)  # 8 rows held out, 40 left out in turn


def test_a_class_called_none(bayesvm, here):
    rows = [f"{x},{['none', 'mild', 'severe'][x % 3]}" for x in range(60)]
    (here / "t.csv").write_text("x,severity\n" + "\n".join([*rows, "7,"]) + "\n")
    facts = bayesvm("fit", "t.csv", "--target", "severity", "--no-report", "--json").json
    assert [c["label"] for c in facts["classes"]] == ["mild", "none", "severe"]
    assert facts["rows_without_label"] == 1
    facts = bayesvm("evaluate", "t.skops", "t.csv", "--json").json
    assert (facts["rows"], facts["rows_with_unseen_label"]) == (60, {})


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full here")
def test_full_disks(bayesvm, here):
    write_table(mixed_table(60), here / "t.csv")
    answer = bayesvm(
        "fit", "t.csv", "--target", "species", "--model", "/dev/full", "--no-report", "--holdout", 0
    )
    assert answer.status == 2
    assert answer.err == "bayesvm: No space left on device\n"


def test_folders_that_may_not_be_written(bayesvm, here, monkeypatch):
    write_table(mixed_table(60), here / "t.csv")
    access = os.access
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK and access(path, mode))
    answer = bayesvm("fit", "t.csv", "--target", "species")
    assert answer.status == 2
    assert "you may not write into the folder" in answer.err


def test_debug_shows_where(bayesvm, here, monkeypatch):
    answer = bayesvm("fit", "none.csv", "--target", "x", "--debug")
    assert answer.status == 2
    assert "Traceback" in answer.err
    assert answer.err.splitlines()[-1].startswith("bayesvm: there is no file 'none.csv'")
    monkeypatch.setenv("BAYESVM_DEBUG", "1")
    assert "Traceback" in bayesvm("fit", "none.csv", "--target", "x").err


def test_faults_of_ours_are_told_as_such(bayesvm, here, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("bayesvm.tables._fitting.table_classifier", broken)
    write_table(mixed_table(60), here / "t.csv")
    answer = bayesvm("fit", "t.csv", "--target", "species")
    assert answer.status == 1
    assert answer.err.count("\n") == 1
    assert "RuntimeError: two lines" in answer.err
    assert "--debug" in answer.err


def test_json_is_strict(bayesvm, here, monkeypatch):
    """A threshold that nothing reaches is infinite, which JSON does not know."""
    rng = np.random.default_rng(0)
    write_table(mixed_table(60)[["colour"]].assign(y=rng.choice(["u", "v"], 60)), here / "t.csv")
    answer = bayesvm("fit", "t.csv", "--target", "y", "--json", "--no-report", "--abstain", 0.001)
    facts = json.loads(answer.out, parse_constant=lambda name: pytest.fail(name))
    assert facts["abstention"]["threshold"] is None
    assert facts["abstention"]["answered"] == 0.0
    assert facts["abstention"]["promised_with"] is None
    assert any("takes at least 2302 rows to judge by" in note for note in facts["notes"])
    assert facts["better_than_frequencies"] is False
    assert any("no better than the class frequencies" in note for note in facts["notes"])
