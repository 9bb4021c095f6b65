"""The clock runs while a model trains and at no other time."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import peers_bayesvm
import peers_worker
import pytest
from peers_problems import make_problem
from peers_worker import Problem, Recorder, batches, run_worker, train
from sklearn.datasets import load_iris

from bayesvm import BayesianSVC


@pytest.fixture
def problem():
    X, y = load_iris(return_X_y=True)
    return make_problem(X[::2], y[::2], X[1::2], y[1::2])


@pytest.fixture
def clock(monkeypatch):
    """A clock that only we advance."""
    time = SimpleNamespace(now=0.0)
    time.perf_counter = time.process_time = lambda: time.now
    time.advance = lambda seconds: setattr(time, "now", time.now + seconds)
    monkeypatch.setattr(peers_worker, "time", time)
    monkeypatch.setattr(peers_bayesvm, "time", time)
    return time


def uniform(problem):
    return np.full((len(problem.y_test), 3), 1 / 3)


def test_steps_are_on_the_clock_and_predictions_are_not(problem, clock):
    def predict():
        clock.advance(100.0)
        return uniform(problem)

    result = train(problem, 3, lambda: clock.advance(10.0), lambda _: clock.advance(1.0), predict)
    assert result["seconds"] == [1.0, 2.0, 3.0]
    assert result["log_loss"] == pytest.approx([np.log(3)] * 3)
    assert "stopped" not in result


def test_a_step_that_fails_ends_the_run_and_keeps_what_was_reached(problem, clock):
    def step(_):
        clock.advance(1.0)
        if clock.now > 2.5:
            raise FloatingPointError("not positive definite")

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


def test_problem_survives_its_file(problem, tmp_path):
    problem.save(tmp_path / "problem.npz")
    again = Problem.load(tmp_path / "problem.npz")
    assert again.n_classes == 3
    assert all(np.array_equal(a, b) for a, b in zip(problem, again, strict=True))


def test_worker_takes_the_median_of_each_time_and_reports_errors(problem, tmp_path, monkeypatch):
    problem.save(tmp_path / "problem.npz")
    runs = iter([[], [3.0, 5.0], [1.0, 9.0], [2.0, 7.0]])  # the first is the warm-up

    def fit(problem, options):
        assert options == {"rate": 1}
        seconds = next(runs)
        return {"seconds": seconds, "log_loss": [0.123456789, 0.1], "unwatched_s": sum(seconds) / 3}

    def run(fit, options):
        monkeypatch.setattr(sys, "argv", ["", "problem.npz", "result.json", json.dumps(options)])
        run_worker(fit)
        return json.loads((tmp_path / "result.json").read_text())

    monkeypatch.chdir(tmp_path)
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
    spectator = peers_bayesvm.Spectator(recorder, problem.X_test)
    spectator.on_fit_task_begin(None, whole)
    hooks(trained=1.0, building=10.0)
    hooks(trained=2.0, building=20.0)
    clock.advance(4.0)
    spectator.on_fit_task_end(None, whole)
    spectator.finish(model)
    assert recorder.seconds == [1.0 + 10.0, 3.0 + 20.0, 7.0]


def test_bayesvm_is_seen_at_every_step_and_when_it_is_done(problem):
    options = {"n_inducing": 16, "random_state": 0}
    result = peers_bayesvm.fit(problem, options)
    assert len(result["seconds"]) > 5
    alone = Recorder(problem)
    alone.add(0.0, BayesianSVC(**options).fit(problem.X, problem.y).predict_proba(problem.X_test))
    assert result["log_loss"][-1] == alone.log_loss[0]  # being watched changes nothing


def test_peers_start_from_the_points_of_bayesvm(problem):
    model = BayesianSVC(n_inducing=64, random_state=0).fit(problem.X, problem.y)
    Z = model.inducing_points_[np.lexsort(model.inducing_points_.T)]
    S = model.model_.scaler.inverse_transform(problem.Z)
    assert len(problem.Z) == 64
    np.testing.assert_allclose(S[np.lexsort(S.T)], Z, atol=1e-9)
    np.testing.assert_allclose(problem.S.mean(0), 0.0, atol=1e-9)
