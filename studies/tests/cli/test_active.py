"""The experiment on active learning from the command line, on irises."""

import json

import pytest

from studies.tests.datasets.folders import iris_folder


@pytest.fixture
def there(here, monkeypatch):
    """An empty folder with a set beside it."""
    monkeypatch.setenv("BAYESVM_DATA", str(iris_folder(here / "pmlb")))
    return here


QUICK = ("reproduce", "active", "--subset", "iris", "--queries", "3", "--seeds", "1")
CHOSEN = ("--models", "default,svc", "--policies", "variation_ratio,softmax_entropy,margin")


def test_run_resume_and_report(bayesvm, there):
    listed = bayesvm(*QUICK, *CHOSEN, "--dry-run")
    assert listed.out.splitlines()[0] == "sets iris 0 default/variation_ratio"
    assert listed.err == "bayesvm: 0 fits known, 4 to do\n"

    answer = bayesvm(*QUICK, *CHOSEN)
    assert (answer.status, answer.out) == (0, ""), answer.err
    assert answer.err.splitlines()[-1] == "bayesvm: 4 fits made, 0 known before, in results/active.jsonl"
    lines = (there / "results" / "active.jsonl").read_text().splitlines()
    assert all(len(json.loads(line)["extra"]["wrong"]) == 4 for line in lines)
    again = bayesvm(*QUICK, *CHOSEN)
    assert again.err.splitlines()[-1] == "bayesvm: 0 fits made, 4 known before, in results/active.jsonl"

    outputs = ("--json", "summary.json", "--table", "runs.csv", "--figures", "figures", "-o", "page.html")
    shown = bayesvm("report", "active", *outputs)
    assert (shown.err, shown.status) == ("", 0)
    assert "area under the curve" in shown.out
    summary = json.loads((there / "summary.json").read_text())
    assert set(summary["mean_rank"]) == {"variation_ratio", "softmax_entropy", "margin"}
    assert set(summary["area_under_curve"]) == {"variation_ratio", "softmax_entropy", "margin", "svc/margin"}
    assert summary["round_seconds_1m"] is None
    assert summary["n_queries"] == 3
    table = (there / "runs.csv").read_text().splitlines()
    assert len(table) == 5
    assert "Active learning" in (there / "page.html").read_text()
    assert (there / "figures" / "pair_ranks.svg").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policies", "margn"), "did you mean 'margin'"),
        (("--models", "forest"), "there is no model 'forest'"),
        (("--group", "slots"), "there is no part 'slots'"),
    ],
)
def test_mistakes_are_explained(bayesvm, there, arguments, words):
    answer = bayesvm(*QUICK, *arguments)
    assert answer.status == 2
    assert words in answer.err


def test_no_results(bayesvm, there):
    answer = bayesvm("report", "active")
    assert answer.status == 2
    assert "no results in results/active.jsonl; 'bayesvm reproduce active' makes some" in answer.err
