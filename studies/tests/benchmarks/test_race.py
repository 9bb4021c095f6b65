"""The race: targets and ratios by hand, a clock that runs while a model trains, results that are kept."""

import argparse
import importlib.util
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from bayesvm import BayesianSVC
from bayesvm_studies.benchmarks import race, race_models
from bayesvm_studies.benchmarks.race import Curve, geometric_mean, race_all, summarise
from bayesvm_studies.benchmarks.race_models import (
    CONTESTANTS,
    FITS,
    PEERS,
    Contestant,
    Recorder,
    batches,
    make_problem,
    run_one,
    train,
    version,
    with_option,
)
from bayesvm_studies.competitors.svgp import StepTime

# --- arithmetic

PEER = Curve([1.0, 2.0, 3.0, 4.0], [0.9, 0.4, 0.4, 0.6])
QUICK = Curve([0.1, 0.2, 0.5], [0.8, 0.4, 0.3])
NEVER = Curve([0.1, 0.2], [0.8, 0.5])


def test_first_at_takes_the_earliest_time_whatever_the_order():
    assert PEER.first_at(0.9) == 1.0
    assert PEER.first_at(0.4) == 2.0
    assert PEER.first_at(0.39) is None
    assert Curve([0.5, 0.4], [0.1, 0.1]).first_at(0.1) == 0.4


def test_target_is_the_peers_best_and_its_time_when_it_first_was_there():
    result = race.race(QUICK, PEER)
    assert (result.target, result.peer_s, result.ours_s) == (0.4, 2.0, 0.2)
    assert result.ratio == pytest.approx(0.1)
    assert result.arrived
    assert not result.at_least


def test_geometric_mean_is_neutral_to_which_way_round_a_ratio_is():
    ratios = [0.1, 0.5, 3.0]
    assert geometric_mean(ratios) == pytest.approx(math.prod(ratios) ** (1 / 3))
    assert geometric_mean(1 / r for r in ratios) == pytest.approx(1 / geometric_mean(ratios))


CURVES = {
    ("digits", "bayesvm"): QUICK,
    ("digits", "gpflow"): Curve([10.0, 20.0], [0.5, 0.3]),
    ("digits", "gpytorch"): PEER,
    ("a", "bayesvm"): QUICK,
    ("a", "gpflow"): PEER,
    ("a", "gpytorch"): Curve([8.0], [0.8]),
    ("b", "bayesvm"): NEVER,
    ("b", "gpflow"): PEER,
    ("c", "gpflow"): PEER,  # we did not run there
}


def test_on_digits_all_run_for_the_target_of_gpflow():
    races = race_all(CURVES, ["gpflow", "gpytorch"])
    assert races["digits", "gpflow"].target == races["digits", "gpytorch"].target == 0.3
    assert races["digits", "gpytorch"].at_least
    assert races["a", "gpytorch"].target == 0.8  # elsewhere each for its own


def test_races_are_held_where_both_ran():
    assert set(race_all(CURVES, ["gpflow", "gpytorch"])) == {
        ("digits", "gpflow"),
        ("digits", "gpytorch"),
        ("a", "gpflow"),
        ("a", "gpytorch"),
        ("b", "gpflow"),
    }


def test_without_gpflow_a_peer_on_digits_runs_for_its_own_target():
    curves = {key: curve for key, curve in CURVES.items() if key[1] != "gpflow"}
    assert race_all(curves, ["gpytorch"])["digits", "gpytorch"].target == PEER.best


def test_summary_has_digits_apart_and_lists_where_we_never_arrived():
    summary = summarise(CURVES, ["gpflow", "gpytorch"])
    digits, suite = summary["digits"], summary["suite"]
    assert digits["time_ratio_gpflow"] == pytest.approx(0.5 / 20.0)
    assert digits["time_ratio_gpytorch"] == pytest.approx(0.5 / 4.0)
    assert digits["at_least_gpytorch"]
    assert digits["time_ratio_gpytorch_own_target"] == pytest.approx(0.1)
    assert suite["time_ratio_gpflow"] == pytest.approx(math.sqrt(0.1 * 1.0))  # a, and b as one
    assert suite["time_ratio_gpytorch"] == pytest.approx(0.1 / 8.0)
    assert suite["not_reached_gpflow"] == ["b"]
    assert suite["not_reached_gpytorch"] == []
    assert (suite["n_sets_gpflow"], suite["n_sets_gpytorch"]) == (2, 1)
    assert len(summary["races"]) == 5


# --- the clock


@pytest.fixture
def problem():
    X, y = load_iris(return_X_y=True)
    return make_problem(X[::2], y[::2], X[1::2], y[1::2])


@pytest.fixture
def clock(monkeypatch):
    """A clock that only we advance."""
    time = SimpleNamespace(now=0.0)
    time.perf_counter = lambda: time.now
    time.advance = lambda seconds: setattr(time, "now", time.now + seconds)
    monkeypatch.setattr(race_models, "time", time)
    return time


def uniform(problem):
    return np.full((len(problem.y_test), 3), 1 / 3)


def test_times_are_those_of_the_steps_alone(problem):
    result = train(problem, 3, lambda: None, lambda _: StepTime(1.0, 0.5), lambda: uniform(problem))
    assert result["seconds"] == [1.0, 2.0, 3.0]
    assert result["processor_s"] == 1.5
    assert result["log_loss"] == pytest.approx([np.log(3)] * 3)
    assert "stopped" not in result


def test_a_step_that_fails_ends_the_run_and_keeps_what_was_reached(problem):
    steps = iter([StepTime(1.0, 1.0), StepTime(1.0, 1.0)])

    def step(_):
        try:
            return next(steps)
        except StopIteration:
            raise FloatingPointError("not positive definite") from None

    result = train(problem, 10, lambda: None, step, lambda: uniform(problem))
    assert result["seconds"] == [1.0, 2.0]
    assert result["stopped"] == "step 3: FloatingPointError: not positive definite"


def test_a_first_step_that_fails_is_an_error(problem):
    with pytest.raises(RuntimeError, match="step 1: ZeroDivisionError"):
        train(problem, 2, lambda: None, lambda _: 1 / 0, lambda: uniform(problem))


def test_probabilities_are_normalised_before_they_are_scored(problem):
    recorder = Recorder(problem)
    recorder.add(1.0, 1.0002 * uniform(problem))
    recorder.add(2.0, np.eye(3)[problem.y_test])
    result = recorder.result()
    assert result["log_loss"] == pytest.approx([np.log(3), 0.0], abs=1e-9)
    assert result["accuracy"] == result["accuracy_at_best"] == 1.0


def test_batches_have_distinct_rows_and_all_rows_are_no_batch(problem):
    draw = batches(problem, 20)
    first, second = draw(), draw()
    assert len(set(first)) == 20
    assert set(first) != set(second)
    assert batches(problem, None)() is None
    assert batches(problem, len(problem.y))() is None


def test_a_run_takes_the_median_of_each_time_and_reports_errors(problem, tmp_path):
    problem.save(tmp_path / "problem.npz")
    runs = iter([[], [3.0, 5.0], [1.0, 9.0], [2.0, 7.0]])  # the first is the warm-up

    def fit(problem, options):
        assert options == {"rate": 1}
        seconds = next(runs)
        return {"seconds": seconds, "log_loss": [0.123456789, 0.1], "unwatched_s": sum(seconds) / 3}

    def run(fit, options):
        files = (str(tmp_path / name) for name in ("problem.npz", "result.json"))
        run_one(fit, *files, json.dumps(options))
        return json.loads((tmp_path / "result.json").read_text())

    result = run(fit, {"rate": 1, "repeats": 3})
    assert result == {"seconds": [2.0, 7.0], "log_loss": [0.12346, 0.1], "unwatched_s": 3.0}
    assert run(lambda *_: 1 / 0, {}) == {"error": "ZeroDivisionError: division by zero"}


def test_spectator_counts_training_and_the_building_of_this_step_alone(problem, clock):
    def hooks(trained, building):
        clock.advance(trained)
        spectator.on_fit_task_begin(None, step)
        clock.advance(building)
        spectator.on_fit_task_end(None, step, fitted_estimator=model)

    def predict_proba(X):
        clock.advance(1000.0)
        return uniform(problem)

    model = SimpleNamespace(predict_proba=predict_proba)
    step, whole = SimpleNamespace(parent="the fit"), SimpleNamespace(parent=None)
    recorder = Recorder(problem)
    spectator = race_models.Spectator(recorder, problem.X_test)
    spectator.on_fit_task_begin(None, whole)
    hooks(trained=1.0, building=10.0)
    hooks(trained=2.0, building=20.0)
    clock.advance(4.0)
    spectator.on_fit_task_end(None, whole)
    spectator.finish(model)
    assert recorder.seconds == [1.0 + 10.0, 3.0 + 20.0, 7.0]


def test_bayesvm_is_seen_at_every_step_and_when_it_is_done(problem):
    options = {"n_inducing": 8, "local": False, "kernel": "rbf", "random_state": 0}
    result = race_models.fit_bayesvm(problem, options)
    assert len(result["seconds"]) > 5
    alone = Recorder(problem)
    alone.add(0.0, BayesianSVC(**options).fit(problem.X, problem.y).predict_proba(problem.X_test))
    assert result["log_loss"][-1] == alone.log_loss[0]  # being watched changes nothing


def test_peers_start_from_the_points_of_bayesvm(problem):
    model = BayesianSVC(n_inducing=64, random_state=0).fit(problem.X, problem.y)
    points = (model.inducing_points_ - problem.X.mean(0)) / problem.X.std(0)
    np.testing.assert_allclose(problem.Z, points, atol=1e-9)
    np.testing.assert_allclose(problem.S.mean(0), 0.0, atol=1e-9)


# --- results that are kept

IDENTITY = {"version": "1", "options": {"rate": 0.1}, "problem": "abc", "provisional": False}
RECORD = {**IDENTITY, "data": "a", "model": "m", "seconds": [1.0], "log_loss": [0.5], "process_s": 3.0}


def test_what_is_the_same_is_not_run_again():
    assert race.is_known(RECORD, IDENTITY)
    assert not race.is_known(None, IDENTITY)
    assert not race.is_known({**RECORD, "error": "x"}, IDENTITY)
    assert race.is_known({**RECORD, "note": "stopped after 600 s"}, IDENTITY)
    for key, value in {"version": "2", "options": {}, "problem": "d"}.items():
        assert not race.is_known({**RECORD, key: value}, IDENTITY)


def test_a_trial_does_not_stand_in_for_a_final_run_but_the_other_way_round():
    assert not race.is_known({**RECORD, "provisional": True}, IDENTITY)
    assert race.is_known(RECORD, {**IDENTITY, "provisional": True})


def test_table_and_outcome_tell_what_happened():
    stopped = {**RECORD, "seconds": [1.0, 2.0, 3.0], "log_loss": [0.5, 0.2, 0.4], "stopped": "step 4: E: x"}
    assert race.outcome(stopped) == "log-loss 0.2000 after 2.00 of 3.00 s (step 4: E: x)"
    (row,) = race.table({("a", "m"): stopped})
    assert (row["log_loss"], row["best_log_loss"], row["best_s"], row["total_s"]) == (0.4, 0.2, 2.0, 3.0)
    assert race.outcome({"error": "E: x"}) == "FAILED: E: x"
    assert race.table({("a", "m"): {"note": "left out"}}) == [{"data": "a", "model": "m", "note": "left out"}]


def test_options_of_a_model_can_be_set():
    assert race.parse_option("gpflow.learning_rate=0.05") == ("gpflow", "learning_rate", 0.05)
    with pytest.raises(argparse.ArgumentTypeError, match=r"give MODEL.OPTION=VALUE"):
        race.parse_option("nobody.rate=1")
    changed = with_option(CONTESTANTS["gpytorch"], "batch_size", 32)
    assert changed.options["batch_size"] == 32
    assert "batch_size" not in CONTESTANTS["gpytorch"].options


def test_a_version_names_the_packages_and_the_code():
    assert version(CONTESTANTS["bayesvm"]).startswith("bayesvm ")
    assert "code " in version(CONTESTANTS["svc"])
    with pytest.raises(RuntimeError, match=r"no_such_package.*make peers-env"):
        version(Contestant("", "classifier", {}, ("no_such_package",)))


def test_a_model_that_cannot_or_may_not_run_leaves_a_note(tmp_path):
    big = Contestant("", "classifier", {}, max_rows=10)
    assert race.run_contestant(big, tmp_path, 11) == {"note": "left out: 11 rows, more than 10"}
    slow = Contestant("", "classifier", {}, limit_s=0.01)
    assert race.run_contestant(slow, tmp_path, 11)["note"] == "stopped after 0.01 s"


def test_run_goes_on_without_a_missing_peer_and_is_not_repeated(problem, tmp_path, monkeypatch, capsys):
    results, summary = tmp_path / "results.jsonl", tmp_path / "summary.json"
    files = ["--results", str(results), "--json", str(summary)]
    arguments = ["--subset", "digits", "--models", "gpflow", "logistic_regression", *files]
    monkeypatch.setattr(sys, "argv", ["race", *arguments])
    monkeypatch.setenv("BAYESVM_GPFLOW_PYTHON", str(tmp_path / "nowhere"))
    monkeypatch.setattr(race, "load_problem", lambda folder, name: problem)

    def here(kind, options, problem_file, limit_s):  # the slow test below starts the process
        run_one(FITS[kind], str(problem_file), str(tmp_path / "one.json"), json.dumps(options))
        return json.loads((tmp_path / "one.json").read_text())

    monkeypatch.setattr(race, "run", here)
    assert race.main() == 1
    said = capsys.readouterr().err
    assert "WITHOUT GPflow SVGP" in said
    assert "make peers-env" in said
    assert "0 runs known, 1 to do" in said
    written = json.loads(summary.read_text())
    assert [row["model"] for row in written["table"]] == ["logistic_regression"]
    assert all(row["accuracy"] > 0.9 for row in written["table"])
    assert written["races"] == []
    before = results.read_bytes()
    assert race.main() == 1
    assert "1 runs known, 0 to do" in capsys.readouterr().err
    assert results.read_bytes() == before


@pytest.mark.slow
def test_a_model_runs_in_a_process_of_its_own(problem, tmp_path):
    problem.save(tmp_path / "problem.npz")
    options = {"classifier": "logistic_regression"}
    found = race_models.run("classifier", options, tmp_path / "problem.npz")
    alone = race_models.fit_classifier(problem, options)
    assert found["log_loss"] == pytest.approx(alone["log_loss"], abs=1e-4)
    assert found["process_s"] > found["seconds"][0]


# --- the figure

FIGURE = Path(__file__).parents[3] / "docs" / "figures" / "peers.py"


@pytest.fixture
def figure():
    spec = importlib.util.spec_from_file_location("peers_figure", FIGURE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_contestant_has_a_place(figure):
    assert {*figure.LINES, *figure.POINTS} == set(CONTESTANTS)


@pytest.mark.parametrize("best", [0.05, 0.5], ids=["we arrive", "we never arrive"])
def test_figure_is_written(figure, tmp_path, monkeypatch, best):
    curves = {
        (data, model): Curve([0.1, 0.2], [0.9, best]) if model == "bayesvm" else Curve([1.0, 9.0], [0.8, 0.1])
        for data in ("digits", "vehicle")
        for model in CONTESTANTS
        if model != "gpc"
    }
    lines = [json.dumps({"data": d, "model": m, **c._asdict()}) for (d, m), c in curves.items()]
    lines.append(json.dumps({"data": "digits", "model": "gpc", "note": "stopped after 600 s"}))
    (tmp_path / "peers.jsonl").write_text("\n".join(lines))
    (tmp_path / "peers.json").write_text(json.dumps(summarise(curves, PEERS)))
    monkeypatch.setattr(figure, "RESULTS", tmp_path)
    assert 10_000 < figure.main(tmp_path).stat().st_size < 300_000
