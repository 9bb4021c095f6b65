"""The experiment on images from the command line, with the paper's network on a handful of images."""

import json
import os

import pytest

from bayesvm_studies.images.models import load_model
from studies.tests.images.folders import mnist_folder


@pytest.fixture
def there(here, monkeypatch):
    """An empty folder with images beside it."""
    monkeypatch.setenv("BAYESVM_IMAGES", str(mnist_folder(here / "images", 60, 30)))
    return here


QUICK = (
    "reproduce",
    "images",
    "--subset",
    "mnist",
    "--group",
    "mnist",
    "--limit-rows",
    "40",
    "--epochs",
    "1",
)


def test_run_resume_and_report(bayesvm, there):
    models = ("--models", "softmax,bayesvm,laplace", "--seeds", "1")
    answer = bayesvm(*QUICK, *models)
    assert (answer.status, answer.out) == (0, ""), answer.err
    lines = answer.err.splitlines()
    assert lines[0] == "0 fits known, 2 to do"
    assert lines[1].split()[:6] == ["1/2", "mnist", "mnist", "seed", "0", "softmax"]
    assert lines[-1] == "bayesvm: 3 fits made, 0 known before, in results/images.jsonl"
    kept = sorted((there / "results" / "images.models").iterdir())
    assert [p.name.rpartition("-")[0] for p in kept] == ["mnist-bayesvm-seed0", "mnist-softmax-seed0"]
    assert load_model(kept[0]).head.n_classes == 10

    again = bayesvm(*QUICK, *models)
    assert again.err.splitlines()[-1] == "bayesvm: 0 fits made, 3 known before, in results/images.jsonl"

    outputs = ("--json", "summary.json", "--table", "runs.csv", "--figures", "figures", "-o", "page.html")
    shown = bayesvm("report", "images", *outputs)
    assert (shown.err, shown.status) == ("", 0)
    assert "mnist: bayesvm_tempered" in shown.out
    summary = json.loads((there / "summary.json").read_text())
    assert set(summary["mnist"]["accuracy"]) == {
        f"{model}{ending}" for model in ("softmax", "bayesvm", "laplace") for ending in ("", "_tempered")
    }
    keys = (
        "cifar10",
        "cifar10_residual",
        "ece",
        "ood_auroc",
        "epoch_time_ratio",
        "epoch_time_ratio_1000_classes",
    )
    assert all(key in summary for key in keys)
    assert summary["mnist"]["shortened"]
    assert (there / "runs.csv").read_text().count("\n") == 4
    assert (there / "figures" / "mnist_accuracy.png").is_file()
    assert "were shortened" in (there / "page.html").read_text()


@pytest.mark.usefixtures("there")
def test_a_run_that_fails_is_recorded_and_stops_nobody(bayesvm):
    answer = bayesvm(*QUICK, "--models", "softmax,laplace", "--seeds", "1", "--device", "mps:9")
    assert answer.status == 1
    assert answer.err.count("ERROR: ") == 2
    assert "bayesvm: 2 fits failed; the errors are in the results, and --retry tries again" in answer.err


@pytest.mark.usefixtures("there")
def test_a_dry_run_lists_and_makes_nothing(bayesvm):
    answer = bayesvm("reproduce", "images", "--subset", "mnist", "--dry-run")
    lines = answer.out.splitlines()
    assert lines[0] == "mnist mnist 0 softmax"
    assert len(lines) == 12 + 4 + 4 + 2
    assert not os.path.exists("results")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--group", "mnits"), "there is no part 'mnits'; did you mean 'mnist'?"),
        (("--subset", "cifar"), "there is no image set 'cifar'; did you mean 'cifar10'?"),
        (("--models", "svm"), "there is no model 'svm'"),
        (("--data", "nowhere"), "data: there is no folder 'nowhere'"),
        (("--seeds", "0"), "Invalid value for '--seeds'"),
        (("--limit-rows", "3"), "Invalid value for '--limit-rows'"),
    ],
)
@pytest.mark.usefixtures("there")
def test_errors_are_one_line(bayesvm, arguments, message):
    answer = bayesvm("reproduce", "images", "--subset", "mnist", *arguments)
    assert answer.status == 2
    assert answer.err.startswith("bayesvm: ")
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert not os.path.exists("results")


@pytest.mark.usefixtures("here")
def test_no_results(bayesvm):
    answer = bayesvm("report", "images")
    assert answer.status == 2
    assert "no results in results/images.jsonl; 'bayesvm reproduce images' makes some" in answer.err


def test_both_experiments_are_offered(bayesvm):
    for group in ("reproduce", "report"):
        shown = bayesvm(group, "--help")
        assert "structured" in shown.out
        assert "images" in shown.out
