"""The experiment on adversarial images from the command line, the paper's network on a handful of them."""

import json
import os

import pytest

from studies.tests.images.folders import mnist_folder

pytest.importorskip("art")


@pytest.fixture
def there(here, monkeypatch):
    """An empty folder with images beside it."""
    monkeypatch.setenv("BAYESVM_IMAGES", str(mnist_folder(here / "images", 60, 30)))
    return here


QUICK = (
    "reproduce",
    "adversarial",
    "--group",
    "mnist",
    "--limit-rows",
    "40",
    "--epochs",
    "1",
    "--seeds",
    "1",
)


def test_run_resume_and_report(bayesvm, there):
    chosen = ("--models", "bayesvm", "--attacks", "fgsm", "--models-from", "kept")
    answer = bayesvm(*QUICK, *chosen)
    assert (answer.status, answer.out) == (0, ""), answer.err
    lines = answer.err.splitlines()
    assert lines[0] == "0 fits known, 1 to do"  # the training
    assert lines[2] == "0 fits known, 1 to do"
    assert lines[3].split()[:6] == ["1/1", "fgsm", "mnist", "seed", "0", "mnist.bayesvm"]
    assert lines[-2] == "bayesvm: 2 fits made, 0 known before, in results/adversarial.jsonl"
    assert "bayesvm: note: not the published mnist" in lines[-1]
    kept = sorted(p.name.rpartition("-")[0] for p in (there / "kept").glob("*.pt"))
    assert kept == ["mnist-bayesvm-seed0"]

    again = bayesvm(*QUICK, *chosen)
    assert again.err.splitlines()[-1] == "bayesvm: 0 fits made, 1 known before, in results/adversarial.jsonl"
    listed = bayesvm(*QUICK, "--models", "bayesvm", "--models-from", "kept", "--dry-run")
    assert listed.out.splitlines() == [
        f"{attack} mnist 0 mnist.bayesvm" for attack in ("pgd", "adaptive", "mimic")
    ]

    outputs = ("--json", "summary.json", "--table", "runs.csv", "--figures", "figures", "-o", "page.html")
    shown = bayesvm("report", "adversarial", *outputs)
    assert (shown.err, shown.status) == ("", 0)
    assert "mnist: AUC log_variation_ratio" in shown.out
    assert "some runs were shortened" in " ".join(shown.out.split())
    summary = json.loads((there / "summary.json").read_text())
    assert set(summary["mnist"]["auc"]["combined"]) == {"0.05", "0.1", "0.15", "0.2", "0.3", "0.4", "0.5"}
    assert {"cifar10", "tpr_at_5_fpr", "adaptive"} <= set(summary)
    assert summary["shortened"]
    assert (there / "runs.csv").read_text().startswith("network,model,seed,attack,epsilon")
    assert (there / "figures" / "mnist_paper.png").is_file()
    assert "were shortened" in (there / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--group", "mnits"), "there is no network 'mnits'; did you mean 'mnist'?"),
        (("--models", "svm"), "there is no model 'svm'"),
        (("--attacks", "cw"), "there is no attack 'cw'"),
        (("--data", "nowhere"), "data: there is no folder 'nowhere'"),
        (("--limit-rows", "3"), "Invalid value for '--limit-rows'"),
    ],
)
@pytest.mark.usefixtures("there")
def test_errors_are_one_line(bayesvm, arguments, message):
    answer = bayesvm("reproduce", "adversarial", "--group", "mnist", *arguments)
    assert answer.status == 2
    assert answer.err.startswith("bayesvm: ")
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert not os.path.exists("results")


@pytest.mark.usefixtures("here")
def test_no_results(bayesvm):
    answer = bayesvm("report", "adversarial")
    assert answer.status == 2
    assert "no results in results/adversarial.jsonl; 'bayesvm reproduce adversarial' makes some" in answer.err
