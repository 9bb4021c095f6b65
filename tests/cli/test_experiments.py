"""The experiments from the command line."""

import json
import os
import pty
import subprocess
import sys

import pytest

from bayesvm.cli.experiment_progress import LiveFits
from bayesvm.experiments import Result
from tests.datasets.folders import iris_folder
from tests.experiments.doubles import task


@pytest.fixture
def there(here, monkeypatch):
    """An empty folder with a set beside it."""
    monkeypatch.setenv("BAYESVM_DATA", str(iris_folder(here / "pmlb")))
    return here


QUICK = ("reproduce", "structured", "--protocol", "olson", "--subset", "iris", "--folds", "2")
MODELS = ("--models", "logistic_regression,hist_gradient_boosting")


def test_run_resume_and_report(bayesvm, there):
    answer = bayesvm(*QUICK, *MODELS)
    assert (answer.status, answer.out) == (0, "")
    lines = answer.err.splitlines()
    assert lines[0] == "0 fits known, 4 to do"
    assert lines[1].split()[:6] == ["1/4", "olson", "iris", "fold", "0", "hist_gradient_boosting"]
    assert "accuracy" in lines[1]
    assert "left 0:" in lines[1]
    assert lines[-1] == "bayesvm: 4 fits made, 0 known before, in results/structured.jsonl"

    again = bayesvm(*QUICK, *MODELS)
    assert again.err.splitlines()[-1] == "bayesvm: 0 fits made, 4 known before, in results/structured.jsonl"

    outputs = ("--json", "summary.json", "--table", "fits.csv", "--figures", "figures", "-o", "page.html")
    shown = bayesvm("report", "structured", *outputs)
    assert (shown.err, shown.status) == ("", 0)
    assert "fewer" not in shown.out
    assert "page     page.html" in shown.out
    summary = json.loads((there / "summary.json").read_text())
    assert set(summary["olson"]["mean_rank"]) == {"logistic_regression", "hist_gradient_boosting"}
    assert summary["olson"]["fewer_folds"] == {"iris": 2}
    for name in ("mean_accuracy", "mean_rank", "log_loss_rank", "ece"):
        assert name in summary["olson"]
    for name in ("mean_rank", "fastest_on", "default_over_paper_time"):
        assert name in summary["paper"]
    assert "suite_minutes" in summary
    assert (there / "fits.csv").read_text().count("\n") == 5
    assert (there / "figures" / "olson_ranks.png").is_file()
    assert "<html" in (there / "page.html").read_text()


def test_the_page_is_what_one_gets_without_asking(bayesvm, there):
    bayesvm(*QUICK, "--models", "logistic_regression")
    assert bayesvm("report", "structured").status == 0
    assert (there / "results" / "structured.html").is_file()


@pytest.mark.usefixtures("there")
def test_a_dry_run_lists_and_makes_nothing(bayesvm):
    answer = bayesvm(*QUICK, *MODELS, "--dry-run")
    assert answer.out.splitlines()[0] == "olson iris 0 hist_gradient_boosting"
    assert len(answer.out.splitlines()) == 4
    assert not os.path.exists("results")


@pytest.mark.usefixtures("there")
def test_fits_that_fail_are_counted(bayesvm):
    answer = bayesvm(*QUICK, "--models", "svc_grid", "--timeout", "0.000001")
    assert answer.status == 0
    assert "bayesvm: note: 2 fits ended by the time limit" in answer.err
    assert "TIMEOUT: ended after" in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--protocol", "mine"), "--protocol 'mine' is not known; give paper, olson or both"),
        (("--subset", "irs"), "the paper has no set 'irs'; did you mean 'iris'?"),
        (("--models", "svm"), "there is no model 'svm'"),
        (("--shorten", "iris"), "--shorten 'iris' is not valid"),
        (("--data", "nowhere"), "data: there is no folder 'nowhere'"),
        (("--folds", "11"), "Invalid value for '--folds'"),
        (("--jobs", "0"), "Invalid value for '--jobs'"),
    ],
)
@pytest.mark.usefixtures("there")
def test_errors_are_one_line(bayesvm, arguments, message):
    answer = bayesvm("reproduce", "structured", "--subset", "iris", *arguments)
    assert answer.status == 2
    assert answer.err.startswith("bayesvm: ")
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert not os.path.exists("results")


def test_a_missing_set_says_how_to_get_it(bayesvm, there, monkeypatch):
    monkeypatch.setitem(sys.modules, "pmlb", None)
    answer = bayesvm("reproduce", "structured", "--subset", "glass")
    assert answer.status == 2
    assert "the set 'glass' is not in" in answer.err
    assert "BAYESVM_DATA" in answer.err


def test_no_results_and_damaged_ones(bayesvm, here):
    answer = bayesvm("report", "structured")
    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert "no results in results/structured.jsonl" in answer.err
    (here / "bad.jsonl").write_text("oops\n")
    answer = bayesvm("report", "structured", "--results", "bad.jsonl")
    assert answer.status == 2
    assert "a line is not a result" in answer.err
    (here / "none.jsonl").touch()
    assert "holds no results" in bayesvm("report", "structured", "--results", "none.jsonl").err


def test_the_live_display_shows_what_runs():
    from rich.console import Console
    from rich.live import Live

    console = Console(width=80, record=True, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    shown = LiveFits(Live(console=console))
    shown.planned(3, 7, 100.0)
    shown.began(task(split=4, model="slow"))
    shown.began(task(split=5, model="quick"))
    shown.ended(Result.of(task(split=5, model="quick"), "ok", n_test=10, correct=9), 1, 7, 90.0)
    console.print(shown)
    text = console.export_text()
    assert "1/7 fits" in text
    assert "left 1:" in text
    assert "(3 known before)" in text
    assert "olson iris fold 4 slow" in text
    assert "last: olson iris fold 5 quick  accuracy 0.900" in text
    shown.ended(Result.of(task(split=4, model="slow"), "error", error="oh no"), 2, 7, 80.0)
    assert "ERROR: oh no" in console.export_text()
    console.file.close()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_on_a_terminal(there):
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    command = [sys.executable, "-m", "bayesvm", *QUICK, "--models", "logistic_regression"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, env=environment, cwd=there)
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        seen += part
    process.communicate()
    os.close(master)
    assert process.returncode == 0
    assert b"fits" in seen
    assert b"olson iris fold" in seen
    assert b"2 fits made" in seen
