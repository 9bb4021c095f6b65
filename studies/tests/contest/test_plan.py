"""Which fits the contest consists of, and that they are made, ended and made again."""

import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import roc_auc_score

from bayesvm_studies.__main__ import main
from bayesvm_studies.competitors.tabular import EBM, RealMLP, _OfCodes
from bayesvm_studies.contest import ContestSettings
from bayesvm_studies.contest.contestants import contestants
from bayesvm_studies.contest.plan import contest_sets, in_order, make_plan
from bayesvm_studies.contest.summary import summarise
from bayesvm_studies.datasets import known_set, two_class_sets
from bayesvm_studies.pool import run_tasks
from bayesvm_studies.results import read_results
from bayesvm_studies.runner import Plan, Stage, run_plan
from bayesvm_studies.spool import Spool
from bayesvm_studies.structured.contestants import missing
from studies.tests.datasets.folders import iris_folder, write_set
from studies.tests.doubles import Shares, task


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder with iris, and beside it one with a set of two classes."""
    place = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    y = np.repeat([0.0, 1.0], [80, 40])
    write_set(place / "pmlb_binary", "titanic", rng.standard_normal((120, 3)) + y[:, None], y)
    return iris_folder(place / "pmlb")


def made(data, **settings):
    return make_plan(ContestSettings(**{"subset": "iris,titanic", **settings}), data)


def test_sets_by_word_and_by_name():
    assert len(contest_sets()) == 72
    assert len(contest_sets("multi_class")) == 67
    assert contest_sets("two_class") == two_class_sets()
    assert all(s.rows <= 1500 for s in contest_sets("small"))
    assert [s.name for s in contest_sets("churn, iris")] == ["iris", "churn"]
    with pytest.raises(ValueError, match="the contest has no set 'churns'; did you mean 'churn'"):
        contest_sets("churns")


def test_limits_rows_and_folds_of_the_models(folders):
    known = contestants()
    limits = {name: c.limit_s for name, c in known.items()}
    assert (limits.pop("bayesvm"), limits.pop("catboost")) == (None, 120.0)
    assert set(limits.values()) == {600.0}
    assert [name for name, c in known.items() if not c.everywhere] == ["realmlp", "ebm"]
    assert [name for name, c in known.items() if not c.takes(known_set("phoneme"))] == ["realmlp", "ebm"]
    plan = made(folders, models="bayesvm,random_forest")
    assert len(plan.tasks) == 40
    assert {t.protocol for t in plan.tasks} == {"olson"}


def test_models_of_three_folds_have_three(folders, monkeypatch):
    monkeypatch.setattr("bayesvm_studies.structured.plan.missing", lambda contestant: None)
    monkeypatch.setattr("bayesvm_studies.structured.plan.versions_of", lambda contestant: {})
    plan = made(folders, models="catboost,ebm", timeout=0.0)
    assert sorted({t.split for t in plan.tasks if t.model == "ebm"}) == [0, 1, 2]
    assert sorted({t.split for t in plan.tasks if t.model == "catboost"}) == list(range(10))
    assert {t.timeout for t in plan.tasks} == {None}


def test_what_is_not_installed_does_not_take_part(folders, monkeypatch):
    monkeypatch.setattr(
        "bayesvm_studies.structured.contestants.find_spec", lambda name: name != "catboost" or None
    )
    plan = made(folders, models="bayesvm,catboost")
    assert plan.absent == {"catboost": "catboost is not installed: pip install catboost"}
    assert {t.model for t in plan.tasks} == {"bayesvm"}


def test_two_class_sets_are_found_in_their_own_folder(folders, tmp_path):
    assert {t.data for t in made(folders).tasks} == {"iris", "titanic"}
    plan = made(folders, models="logistic_regression")
    spool = plan.spool(tmp_path / "r.jsonl")
    assert np.load(spool.folder_of("titanic") / "y.npy").shape == (120,)
    spool.close()
    with pytest.raises(ValueError, match="no folder"):
        made(folders, binary=tmp_path / "nowhere")


def test_the_longest_come_first_and_doubtful_folds_after_one(folders):
    names = [("kddcup", "bayesvm"), ("kddcup", "catboost"), ("iris", "catboost"), ("letter", "bayesvm")]
    tasks = [
        task(data=data, model=model, split=split, timeout=120.0 if model == "catboost" else None)
        for data, model in names
        for split in range(2)
    ]
    assert [(t.data, t.model, t.split) for t in in_order(tasks[::-1])] == [
        ("kddcup", "catboost", 0),
        ("kddcup", "bayesvm", 1),
        ("kddcup", "bayesvm", 0),
        ("letter", "bayesvm", 1),
        ("letter", "bayesvm", 0),
        ("kddcup", "catboost", 1),
        ("iris", "catboost", 1),
        ("iris", "catboost", 0),
    ]


QUICK = ("--subset", "iris,titanic", "--models", "logistic_regression,hist_gradient_boosting", "--folds", "2")


def test_run_resumed_and_reported_without_an_installed_command(folders, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "contest", "--data", str(folders), *QUICK]
    assert main([*command, "--dry-run"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 8
    assert main(command) == 0
    assert "8 fits made, 0 known before, in results/contest.jsonl" in capsys.readouterr().err
    before = (tmp_path / "results" / "contest.jsonl").read_bytes()
    assert main(command) == 0
    assert "0 fits made, 8 known before" in capsys.readouterr().err
    assert (tmp_path / "results" / "contest.jsonl").read_bytes() == before
    results = read_results("results/contest.jsonl", "contest")
    assert all(r.ok and r.commit and r.versions and r.config for r in results)
    assert all((r.auc is not None) == (r.data == "titanic") for r in results)

    assert main(["report", "contest", "--json", "contest.json", "--figures", "figures"]) == 0
    assert "rank by log-loss" in capsys.readouterr().out
    assert (tmp_path / "figures" / "ranks_log_loss.svg").is_file()

    assert main(["reproduce", "contest", "--subset", "irs"]) == 2
    assert "the contest has no set 'irs'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "--jobs", "0"])


def test_nothing_but_numpy_scipy_scikit_learn_and_torch_is_needed():
    """A machine that measures has no more: whatever else is imported would be missing there."""
    program = (
        "import sys\n"
        "for name in 'typer rich pmlb pooch jinja2 pandas matplotlib skops pyarrow'.split():\n"
        "    sys.modules[name] = None\n"
        "from bayesvm_studies.__main__ import main\n"
        "import bayesvm_studies.runner, bayesvm_studies.worker, bayesvm_studies.structured.measure\n"
        "import bayesvm_studies.contest.plan, bayesvm_studies.progress, bayesvm._cli.terminal\n"
        "from bayesvm import BayesianSVC\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_area_is_that_of_scikit_learn(folders, tmp_path):
    plan = made(folders, subset="titanic", models="logistic_regression", folds=1)
    run_plan(plan, tmp_path / "r.jsonl")
    (result,) = read_results(tmp_path / "r.jsonl")
    from bayesvm_studies.structured.contestants import split_rows
    from bayesvm_studies.structured.measure import build

    spool = plan.spool(tmp_path)
    X, y = (np.load(spool.folder_of("titanic") / f"{name}.npy") for name in "Xy")
    spool.close()
    train, test = split_rows("olson", y, 0)
    proba = build(result.config).fit(X[train], y[train]).predict_proba(X[test])
    assert result.auc == pytest.approx(roc_auc_score(y[test], proba[:, 1]), rel=1e-6)


def test_what_takes_too_long_is_recorded_and_told(folders, tmp_path):
    plan = made(folders, subset="iris", models="svc_grid", folds=3, timeout=1e-6)
    run_plan(plan, tmp_path / "r.jsonl")
    results = read_results(tmp_path / "r.jsonl")
    assert [r.status for r in results] == ["timeout"] * 3
    assert sum(r.error.startswith("not tried") for r in results) == 2
    assert run_plan(plan, tmp_path / "r.jsonl").known == 3
    assert summarise(results).as_dict()["not_finished"] == {"iris": {"svc_grid": "ended after 1e-06 s"}}


def test_a_run_ends_by_the_clock_and_the_next_goes_on(sets, tmp_path):
    tasks = [task(split=0), *(task(split=i, model="slow", wait=60.0) for i in (1, 2))]
    plan = Plan([Stage(tasks)], lambda _: Spool(sets))
    start = time.monotonic()
    outcome = run_plan(plan, tmp_path / "r.jsonl", until=start + 4.0)
    assert time.monotonic() - start < 30
    assert outcome.made in (0, 1)  # none on a machine that is slow to start a process
    assert outcome.left == 3 - outcome.made
    quick = Plan([Stage([tasks[0], task(split=1)])], lambda _: Spool(sets))
    again = run_plan(quick, tmp_path / "r.jsonl")
    assert (again.known, again.made, again.left) == (outcome.made, 2 - outcome.made, 0)
    assert [r.status for r in read_results(tmp_path / "r.jsonl")] == ["ok", "ok"]
    assert list(run_tasks(tasks, 1, lambda name: tmp_path, until=time.monotonic())) == []


class Coded(_OfCodes):
    """The plainest model behind codes."""

    def _model(self):
        return Shares()


def test_labels_of_any_kind_come_back():
    y = np.array([3.0, 8.0, 8.0])
    model = Coded().fit(np.zeros((3, 1)), y)
    assert model.classes_.tolist() == [3.0, 8.0]
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 1))), [[1 / 3, 2 / 3]])


@pytest.mark.slow
@pytest.mark.parametrize("make", [RealMLP, EBM])
@pytest.mark.filterwarnings("ignore")
def test_competitors_classify(make):
    contestant = next(c for c in contestants().values() if c.estimator.endswith(make.__name__))
    if missing(contestant):
        pytest.skip(missing(contestant))
    for load in (load_iris, load_breast_cancer):
        X, y = load(return_X_y=True)
        labels = y + 3.0
        model = make().fit(X[::2], labels[::2])
        proba = model.predict_proba(X[1::2])
        assert (model.classes_[proba.argmax(1)] == labels[1::2]).mean() > 0.9
