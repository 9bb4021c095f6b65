"""Models that fail, hang or die, each in a process of its own."""

import os
import time

import pytest

from bayesvm_studies.pool import run_tasks
from studies.tests.doubles import task


def run(arrays, *tasks, jobs=1, started=lambda task: None):
    return {r.split: r for r in run_tasks(tasks, jobs, lambda name: arrays, started)}


def test_scores_clock_and_memory(arrays):
    (result,) = run(arrays, task(wait=0.3)).values()
    assert result.ok
    assert (result.n_train, result.n_test, result.n_features, result.n_classes) == (135, 15, 4, 3)
    assert result.correct == 5  # always the same class of three
    assert result.bins == [[4, 15, 5, pytest.approx(5.0)]]
    assert 0.3 <= result.fit_s < 10.0
    assert result.predict_s < result.fit_s
    assert result.total_s >= result.fit_s
    assert time.time() - 60 < result.started < time.time()


def test_bad_models_harm_nobody_else(arrays):
    names = ("Shares", "Failing", "Dying", "Noisy", "NotFinite", "Missing")
    began = []
    tasks = [task(name, split=i) for i, name in enumerate(names)]
    results = run(arrays, *tasks, started=lambda t: began.append(t.split))
    assert began == list(range(6))
    assert [results[i].status for i in range(6)] == ["ok", "error", "error", "ok", "error", "error"]
    assert results[1].error == "ArithmeticError: two and two is five"
    assert results[2].error == "the process ended with status 7: out of cards"
    assert "not finite" in results[4].error
    assert "has no attribute 'Missing'" in results[5].error


def test_a_fit_that_takes_too_long_is_ended(arrays):
    start = time.monotonic()
    others = task(split=1, model="b"), task(split=2, model="c", wait=0.1, timeout=5.0)
    results = run(arrays, task(wait=60.0, timeout=0.5), *others)
    assert time.monotonic() - start < 30
    assert (results[0].status, results[0].error) == ("timeout", "ended after 0.5 s")
    assert results[0].total_s < 20
    assert results[1].ok
    assert results[2].ok


def test_other_folds_of_what_took_too_long_are_not_tried(arrays):
    began = []
    folds = [task(split=i, wait=60.0, timeout=0.5) for i in range(5)]
    results = run(arrays, *folds, task(split=5, model="other"), started=lambda t: began.append(t.split))
    assert began == [0, 5]
    assert {results[i].status for i in range(5)} == {"timeout"}
    assert results[4].error == "not tried: fold 0 was ended after 0.5 s"
    assert results[5].ok


def test_side_by_side(arrays):
    waits = [task(split=i, wait=1.0) for i in range(4)]
    results = run(arrays, *waits, jobs=4)
    starts = [r.started for r in results.values()]
    assert max(starts) - min(starts) < 0.9
    assert {r.jobs for r in results.values()} == {4}


def test_one_thread_each(arrays, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    fitting = task("Threads")
    (result,) = run(arrays, fitting).values()
    assert result.extra == {"OMP_NUM_THREADS": "1", "torch": 1}


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux")
def test_peak_memory_is_that_of_the_fit(arrays):
    small, large, after = (task("Hungry", split=i, megabytes=mb) for i, mb in enumerate((1, 300, 1)))
    results = run(arrays, small, large, after)
    assert results[0].peak_mb < 60
    assert 290 < results[1].peak_mb < 360
    assert results[2].peak_mb < 60  # the mark of the fit before is forgotten


def test_no_tasks(arrays):
    assert run(arrays) == {}
