"""All studies from the command line, on a handful of rows."""

import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.cli.processes import Terminal

from bayesvm_studies.commands import STUDIES
from bayesvm_studies.datasets import poker_hand
from bayesvm_studies.datasets.poker import generated_hands
from bayesvm_studies.images.models import load_model
from bayesvm_studies.progress import LiveFits
from bayesvm_studies.results import Result, Store, read_results
from bayesvm_studies.structured import StructuredSettings
from bayesvm_studies.structured.plan import make_plan
from studies.tests.datasets.folders import iris_folder, write_set
from studies.tests.doubles import task
from studies.tests.images.conftest import small_networks  # noqa: F401
from studies.tests.images.folders import mnist_folder


@pytest.fixture
def there(here, monkeypatch):
    """An empty folder with sets beside it."""
    monkeypatch.setenv("BAYESVM_DATA", str(iris_folder(here / "pmlb")))
    monkeypatch.setenv("BAYESVM_IMAGES", str(mnist_folder(here / "images", 60, 30)))
    return here


QUICK = ("reproduce", "structured", "--protocol", "olson", "--subset", "iris", "--folds", "2")
MODELS = ("--models", "logistic_regression,hist_gradient_boosting")
FEW_IMAGES = ("--group", "mnist", "--limit-rows", "40", "--epochs", "1", "--seeds", "1")
IMAGES = ("reproduce", "images", "--subset", "mnist", *FEW_IMAGES)
ACTIVE = ("reproduce", "active", "--subset", "iris", "--queries", "3", "--seeds", "1")
ADVERSARIAL = ("reproduce", "adversarial", *FEW_IMAGES)


def summary_of(bayesvm, there, study, words, *outputs):
    """Report on a study as a summary and a table, and otherwise; the answer is the summary."""
    shown = bayesvm("report", study, "--json", "summary.json", "--table", "fits.csv", *outputs)
    assert (shown.err, shown.status) == ("", 0)
    assert words in " ".join(shown.out.split())
    return json.loads((there / "summary.json").read_text())


def test_structured_data_run_resumed_and_reported(bayesvm, there):
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

    outputs = ("--figures", "figures", "-o", "page.html")
    summary = summary_of(bayesvm, there, "structured", "fewer than ten on 1 set", *outputs)
    assert "<html" in (there / "page.html").read_text()
    assert set(summary["olson"]["mean_rank"]) == {"logistic_regression", "hist_gradient_boosting"}
    assert summary["olson"]["fewer_folds"] == {"iris": 2}
    assert {"mean_accuracy", "mean_rank", "log_loss_rank", "ece"} <= set(summary["olson"])
    assert {"mean_rank", "fastest_on", "default_over_paper_time"} <= set(summary["paper"])
    assert "suite_minutes" in summary
    assert (there / "fits.csv").read_text().count("\n") == 5
    assert (there / "figures" / "olson_ranks.png").is_file()


@pytest.mark.usefixtures("inline", "small_networks")
def test_images_run_resumed_and_reported(bayesvm, there):
    models = ("--models", "softmax,bayesvm,laplace")
    answer = bayesvm(*IMAGES, *models)
    assert (answer.status, answer.out) == (0, ""), answer.err
    lines = answer.err.splitlines()
    assert lines[0] == "0 fits known, 2 to do"
    assert lines[1].split()[:6] == ["1/2", "mnist", "mnist", "seed", "0", "softmax"]
    assert lines[-2] == "bayesvm: 3 fits made, 0 known before, in results/images.jsonl"
    assert "bayesvm: note: not the published mnist" in lines[-1]
    kept = sorted((there / "results" / "images.models").iterdir())
    assert [p.name.rpartition("-")[0] for p in kept] == ["mnist-bayesvm-seed0", "mnist-softmax-seed0"]
    assert load_model(kept[0]).head.n_classes == 10

    again = bayesvm(*IMAGES, *models)
    assert again.err.splitlines()[-1] == "bayesvm: 0 fits made, 3 known before, in results/images.jsonl"

    summary = summary_of(bayesvm, there, "images", "mnist: bayesvm_tempered")
    assert set(summary["mnist"]["accuracy"]) == {
        f"{model}{ending}" for model in ("softmax", "bayesvm", "laplace") for ending in ("", "_tempered")
    }
    assert {"cifar10", "cifar10_residual", "ece", "ood_auroc", "epoch_time_ratio"} <= set(summary)
    assert "epoch_time_ratio_1000_classes" in summary
    assert summary["mnist"]["shortened"]
    assert (there / "fits.csv").read_text().count("\n") == 4


@pytest.mark.usefixtures("inline")
def test_active_learning_run_resumed_and_reported(bayesvm, there):
    chosen = ("--models", "default,svc", "--policies", "variation_ratio,softmax_entropy,margin")
    listed = bayesvm(*ACTIVE, *chosen, "--dry-run")
    assert listed.out.splitlines()[0] == "sets iris 0 default/variation_ratio"
    assert listed.err == "bayesvm: 0 fits known, 4 to do\n"

    answer = bayesvm(*ACTIVE, *chosen)
    assert (answer.status, answer.out) == (0, ""), answer.err
    assert answer.err.splitlines()[-1] == "bayesvm: 4 fits made, 0 known before, in results/active.jsonl"
    assert all(len(r.extra["wrong"]) == 4 for r in read_results("results/active.jsonl"))
    again = bayesvm(*ACTIVE, *chosen)
    assert again.err.splitlines()[-1] == "bayesvm: 0 fits made, 4 known before, in results/active.jsonl"

    summary = summary_of(bayesvm, there, "active", "area under the curve")
    assert set(summary["mean_rank"]) == {"variation_ratio", "softmax_entropy", "margin"}
    assert set(summary["area_under_curve"]) == {"variation_ratio", "softmax_entropy", "margin", "svc/margin"}
    assert summary["round_seconds_1m"] is None
    assert summary["n_queries"] == 3
    assert (there / "fits.csv").read_text().count("\n") == 5


@pytest.mark.usefixtures("inline", "small_networks")
def test_adversarial_images_run_resumed_and_reported(bayesvm, there):
    pytest.importorskip("art")
    chosen = ("--models", "bayesvm", "--attacks", "fgsm", "--models-from", "kept")
    answer = bayesvm(*ADVERSARIAL, *chosen)
    assert (answer.status, answer.out) == (0, ""), answer.err
    lines = answer.err.splitlines()
    assert lines[0] == "0 fits known, 1 to do"  # the training
    assert lines[2] == "0 fits known, 1 to do"
    assert lines[3].split()[:6] == ["1/1", "fgsm", "mnist", "seed", "0", "mnist.bayesvm"]
    assert lines[-2] == "bayesvm: 2 fits made, 0 known before, in results/adversarial.jsonl"
    assert "bayesvm: note: not the published mnist" in lines[-1]
    kept = sorted(p.name.rpartition("-")[0] for p in (there / "kept").glob("*.pt"))
    assert kept == ["mnist-bayesvm-seed0"]

    again = bayesvm(*ADVERSARIAL, *chosen)
    assert again.err.splitlines()[-1] == "bayesvm: 0 fits made, 1 known before, in results/adversarial.jsonl"
    listed = bayesvm(*ADVERSARIAL, "--models", "bayesvm", "--models-from", "kept", "--dry-run")
    assert listed.out.splitlines() == [
        f"{attack} mnist 0 mnist.bayesvm" for attack in ("pgd", "adaptive", "mimic")
    ]

    summary = summary_of(bayesvm, there, "adversarial", "some runs were shortened")
    assert set(summary["mnist"]["auc"]["combined"]) == {"0.05", "0.1", "0.15", "0.2", "0.3", "0.4", "0.5"}
    assert {"cifar10", "tpr_at_5_fpr", "adaptive"} <= set(summary)
    assert summary["shortened"]
    assert (there / "fits.csv").read_text().startswith("network,model,seed,attack,epsilon")


@pytest.mark.usefixtures("there", "inline")
def test_a_training_that_fails_is_recorded_and_stops_nobody(bayesvm):
    answer = bayesvm(*IMAGES, "--models", "softmax,laplace", "--device", "mps:9")
    assert answer.status == 1
    assert answer.err.count("ERROR: ") == 2
    assert "bayesvm: 2 fits failed; the errors are in the results, and --retry tries again" in answer.err


def test_all_studies_are_offered(bayesvm):
    for command in ("reproduce", "report"):
        shown = bayesvm(command, "--help")
        assert all(name in shown.out for name in STUDIES)


@pytest.mark.usefixtures("inline")
def test_the_page_is_what_one_gets_without_asking(bayesvm, there):
    bayesvm(*QUICK, "--models", "logistic_regression")
    assert bayesvm("report", "structured").status == 0
    assert (there / "results" / "structured.html").is_file()


@pytest.mark.usefixtures("there")
def test_a_dry_run_lists_and_makes_nothing(bayesvm):
    answer = bayesvm(*QUICK, *MODELS, "--dry-run")
    assert answer.out.splitlines()[0] == "olson iris 0 hist_gradient_boosting"
    assert len(answer.out.splitlines()) == 4
    assert answer.err == "bayesvm: 0 fits known, 4 to do\n"
    assert not os.path.exists("results")


def _record(statuses, versions=None):
    """Results of the first tasks of the quick run, without making them."""
    settings = StructuredSettings(protocol="olson", subset="iris", models=MODELS[1], folds=2)
    tasks = make_plan(settings).tasks
    store = Store("results/structured.jsonl")
    for fit, status in zip(tasks, statuses, strict=False):
        store.add(Result.of(replace(fit, versions=versions) if versions else fit, status))


@pytest.mark.usefixtures("there")
def test_a_dry_run_leaves_out_what_is_known(bayesvm):
    _record(["ok"])
    answer = bayesvm(*QUICK, *MODELS, "--dry-run")
    assert (len(answer.out.splitlines()), answer.err) == (3, "bayesvm: 1 fit known, 3 to do\n")
    _record(["ok", "error", "timeout"])
    answer = bayesvm(*QUICK, *MODELS, "--dry-run")
    assert (answer.status, answer.out) == (0, "olson iris 1 logistic_regression\n")
    assert answer.err.splitlines() == [
        "bayesvm: 3 fits known, 1 to do",
        "bayesvm: of the known fits 1 failed and 1 took too long; --retry tries again",
    ]
    again = bayesvm(*QUICK, *MODELS, "--dry-run", "--retry")
    assert (len(again.out.splitlines()), again.err) == (3, "bayesvm: 1 fit known, 3 to do\n")


@pytest.mark.usefixtures("there")
def test_a_dry_run_may_count_other_versions(bayesvm):
    _record(["ok", "ok"], {"other": "1"})
    for options, n_fits in ((), 4), (("--any-version",), 2):
        assert len(bayesvm(*QUICK, *MODELS, "--dry-run", *options).out.splitlines()) == n_fits


@pytest.mark.usefixtures("there")
def test_fits_that_fail_are_counted(bayesvm):
    command = (*QUICK, "--models", "svc_grid", "--timeout", "0.000001")
    answer = bayesvm(*command)
    assert answer.status == 0
    assert "bayesvm: note: 2 fits ended by the time limit" in answer.err
    assert "TIMEOUT: ended after" in answer.err
    again = bayesvm(*command)
    assert again.status == 0
    assert again.err.splitlines()[-1] == (
        "bayesvm: note: of the known fits 2 took too long; --retry tries again"
    )


@pytest.mark.usefixtures("there", "inline")
def test_failures_of_an_earlier_run_are_told(bayesvm):
    _record(["error", "ok", "timeout", "error"])
    answer = bayesvm(*QUICK, *MODELS)
    assert answer.status == 1
    assert answer.err.splitlines()[-1] == (
        "bayesvm: of the known fits 2 failed and 1 took too long; --retry tries again"
    )
    again = bayesvm(*QUICK, *MODELS, "--retry")
    assert again.status == 0
    assert "of the known fits" not in again.err


POKER = ("reproduce", "structured", "--subset", "poker", "--protocol", "olson", "--folds", "1")


@pytest.mark.usefixtures("inline")
def test_completing_poker_is_told(bayesvm, there, monkeypatch):
    monkeypatch.setattr("bayesvm_studies.datasets.poker.N_ROWS", 300)
    part = generated_hands(100, np.empty((0, 10)))
    write_set(there / "pmlb", "poker", part, poker_hand(part))
    answer = bayesvm(*POKER, "--models", "logistic_regression")
    assert answer.status == 0
    assert answer.err.count("bayesvm: note: poker completed: 100 of its 300 rows are real") == 1


STRUCTURED_ERRORS = [
    (("--protocol", "mine"), "--protocol 'mine' is not known; give paper, olson or both"),
    (("--subset", "irs"), "the paper has no set 'irs'; did you mean 'iris'?"),
    (("--models", "svm"), "there is no model 'svm'"),
    (("--models", ""), "models '' names no model"),
    (("--subset", ""), "subset '' names no set; give small, all or names of sets"),
    (("--device", "foo"), "device 'foo' does not work here"),
    (("--device", "cuda:99"), "device 'cuda:99' does not work here"),
    (("--shorten", "iris"), "--shorten 'iris' is not valid"),
    (("--shorten", "iris=0"), "--shorten 'iris=0' is not valid"),
    (("--shorten", "irs=3"), "shorten: the paper has no set 'irs'"),
    (("--shorten", "iris=1001"), "1001 epochs for iris is not valid; give a number from 1 to 1000"),
    (("--shorten", "glass=5"), "shorten: the set 'glass' is not part of this run"),
    (("--shorten", "iris=5", "--protocol", "olson"), "shorten is for the paper's recipe"),
    (("--results", "."), "--results '.' is a folder; give a file"),
    (("--results", "pmlb/iris/iris.tsv.gz/r.jsonl"), "iris.tsv.gz' is not a folder"),
    (("--data", "nowhere"), "data: there is no folder 'nowhere'"),
    (("--folds", "11"), "Invalid value for '--folds'"),
    (("--jobs", "0"), "Invalid value for '--jobs'"),
]
IMAGE_ERRORS = [
    (("--group", "mnits"), "there is no part 'mnits'; did you mean 'mnist'?"),
    (("--subset", "cifar"), "there is no image set 'cifar'; did you mean 'cifar10'?"),
    (("--models", "svm"), "there is no model 'svm'"),
    (("--data", "nowhere"), "data: there is no folder 'nowhere'"),
    (("--seeds", "0"), "Invalid value for '--seeds'"),
    (("--limit-rows", "3"), "Invalid value for '--limit-rows'"),
]
ACTIVE_ERRORS = [
    (("--policies", "margins"), "there is no policy 'margins'; did you mean 'margin'?"),
    (("--models", "forest"), "there is no model 'forest'"),
    (("--models", ","), "',' names no model"),
    (("--group", "pokers"), "there is no part 'pokers'; did you mean 'poker'?"),
    (("--subset", "irises"), "the paper has no set 'irises'; did you mean 'iris'?"),
    (("--seeds", "0"), "Invalid value for '--seeds'"),
]
ADVERSARIAL_ERRORS = [
    (("--group", "mnits"), "there is no network 'mnits'; did you mean 'mnist'?"),
    (("--models", "laplace"), "there is no model 'laplace'"),
    (("--attacks", "fgm"), "there is no attack 'fgm'; did you mean 'fgsm'?"),
    (("--attacks", ","), "',' names no attack"),
    (("--data", "nowhere"), "data: there is no folder 'nowhere'"),
    (("--limit-rows", "3"), "Invalid value for '--limit-rows'"),
]


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        *((("structured", "--subset", "iris"), *error) for error in STRUCTURED_ERRORS),
        *((("images", "--subset", "mnist"), *error) for error in IMAGE_ERRORS),
        *((("active", "--subset", "iris"), *error) for error in ACTIVE_ERRORS),
        *((("adversarial", "--group", "mnist"), *error) for error in ADVERSARIAL_ERRORS),
    ],
)
@pytest.mark.usefixtures("there")
def test_errors_are_one_line(bayesvm, command, arguments, message):
    answer = bayesvm("reproduce", *command, *arguments)
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


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.usefixtures("here")
def test_no_results(bayesvm, name):
    answer = bayesvm("report", name)
    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert f"no results in results/{name}.jsonl; 'bayesvm reproduce {name}' makes some" in answer.err


def test_damaged_results(bayesvm, here):
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


def test_on_a_terminal(there):
    terminal = Terminal([*QUICK, "--models", "logistic_regression"], there)
    assert terminal.finish() == 0
    for words in ("fits", "olson iris fold", "2 fits made"):
        assert words in terminal.text
