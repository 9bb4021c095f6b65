"""Runs that are killed, stopped or repeated: nothing is lost and nothing counts twice."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

import pytest

from bayesvm_studies.pool import run_tasks
from bayesvm_studies.results import Result, Store, read_results
from bayesvm_studies.runner import Outcome, Plan, Stage, Standing, TimeLeft, run_plan, standing
from bayesvm_studies.spool import Spool
from bayesvm_studies.versions import machine
from studies.tests.datasets.folders import iris_folder
from studies.tests.doubles import task

WAIT = 0.2
N_TASKS = 10


def planned(tasks, data):
    return Plan([Stage(list(tasks))], lambda _: Spool(data))


def plan(data):
    return planned((task(split=i % 10, model=f"model{i // 10}", wait=WAIT) for i in range(N_TASKS)), data)


class Told:
    def __init__(self):
        self.heard = []

    def planned(self, known, todo, left):
        self.heard.append(("planned", known, todo))

    def began(self, task):
        self.heard.append(("began", task.split, task.model))

    def ended(self, result, done, todo, left):
        self.heard.append(("ended", done, todo))
        assert left is not None
        assert left >= 0.0


PROGRAM = """
import sys
from bayesvm_studies.runner import run_plan
from studies.tests.test_runner import plan
run_plan(plan(sys.argv[2]), sys.argv[1], jobs=2)
"""


def start(path, sets):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), str(sets)], env=environment)


def lines(path):
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def wait_for_three(path):
    """Wait for three results, and answer until when one may go on waiting."""
    deadline = time.monotonic() + 90
    while lines(path) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    return deadline


def workers_of(parent):
    found = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True).stdout
    rows = (line.split(None, 2) for line in found.splitlines()[1:])
    return [int(pid) for pid, ppid, args in rows if int(ppid) == parent and "bayesvm_studies.worker" in args]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:  # nobody may have collected it yet
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs Linux")
def test_killed_in_the_middle_and_resumed(tmp_path, sets):
    path = tmp_path / "results.jsonl"
    process = start(path, sets)
    deadline = wait_for_three(path)
    workers = workers_of(process.pid)
    process.kill()  # not asked: no clean-up
    process.wait()
    before = read_results(path)
    assert 3 <= len(before) < N_TASKS
    assert len(workers) == 2
    with path.open("a") as file:  # as if it had been killed while writing
        file.write('{"key": "')

    told = Told()
    outcome = run_plan(plan(sets), path, jobs=2, listener=told)
    after = read_results(path)
    assert outcome == Outcome(known=len(before), made=N_TASKS - len(before), failed=0, timed_out=0)
    assert after[: len(before)] == before
    assert Counter(r.key for r in Store(path).results()) == Counter(t.key for t in plan(sets).tasks)
    assert all(r.ok for r in after)
    assert told.heard[0] == ("planned", len(before), N_TASKS - len(before))
    assert told.heard[-1] == ("ended", outcome.made, outcome.made)

    assert run_plan(plan(sets), path) == Outcome(N_TASKS, 0, 0, 0)
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))  # they ended with their parent


def test_arrays_that_a_killed_run_left_are_removed(tmp_path, sets, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, living = (tmp_path / f"bayesvm-sets-{pid}-abc" for pid in (ended.pid, os.getppid()))
    for folder in (left, living):
        (folder / "iris").mkdir(parents=True)
    spool = Spool(sets)
    assert (spool.folder_of("iris") / "X.npy").is_file()
    assert not left.exists()
    assert living.exists()
    spool.close()
    assert [p.name for p in tmp_path.iterdir()] == [living.name]


def test_ctrl_c_ends_the_workers_and_keeps_what_is_done(tmp_path, sets):
    path = tmp_path / "results.jsonl"
    process = start(path, sets)
    wait_for_three(path)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) != 0
    assert 3 <= len(read_results(path)) < N_TASKS


def test_failures_are_recorded_and_retried_on_request(tmp_path, sets):
    path, file = tmp_path / "results.jsonl", tmp_path / "ready"
    some = [task("FailsOnce", file=str(file)), task(split=1), task(split=2, wait=30.0, timeout=0.3)]
    fits = planned(some, sets)
    assert run_plan(fits, path) == Outcome(known=0, made=3, failed=1, timed_out=1)
    assert run_plan(fits, path) == Outcome(known=3, made=0, failed=0, timed_out=0)
    file.touch()
    assert run_plan(fits, path, retry=True) == Outcome(known=1, made=2, failed=0, timed_out=1)
    assert {r.split: r.status for r in read_results(path)} == {0: "ok", 1: "ok", 2: "timeout"}
    result = next(r for r in read_results(path) if r.split == 0)
    assert result.machine
    assert "python" in result.environment
    assert result.extra == {}


def test_other_versions_are_measured_anew_unless_told_otherwise():
    old = task()
    new = replace(old, versions={"double": "2"})
    results = [Result.of(old, "ok")]
    assert standing([new], results).todo == [new]
    assert standing([new], results, any_version=True).todo == []
    assert standing([old], results).todo == []
    failed = [Result.of(old, "error")]
    assert standing([old], failed).todo == []
    assert standing([old], failed, retry=True).todo == [old]


def test_known_failures_are_counted():
    fits = [task(split=i) for i in range(4)]
    results = [Result.of(t, s) for t, s in zip(fits, ("error", "timeout", "error"), strict=False)]
    results.append(Result.of(fits[2], "ok"))  # tried again
    assert standing(fits, results) == Standing([fits[3]], known=3, failed=1, timed_out=1)
    assert standing(fits, results, retry=True) == Standing([*fits[:2], fits[3]], 1, 0, 0)
    newer = replace(fits[2], versions={"double": "2"})
    results.append(Result.of(newer, "error"))
    assert standing([newer], results) == Standing([], 1, 1, 0)
    assert standing([newer], results, any_version=True) == Standing([], 1, 0, 0)


def test_a_set_that_cannot_be_read_stops_nobody(tmp_path):
    folder = iris_folder(tmp_path / "pmlb")
    bad = folder / "tae" / "tae.tsv.gz"
    bad.parent.mkdir()
    bad.write_bytes(b"no table")
    fits = planned((task(data=name, split=i) for i in range(3) for name in ("tae", "iris")), folder)
    path = tmp_path / "r.jsonl"
    told = Told()
    outcome = run_plan(fits, path, jobs=2)
    assert outcome == Outcome(known=0, made=6, failed=3, timed_out=0)
    assert {(r.data, r.status) for r in read_results(path)} == {("tae", "error"), ("iris", "ok")}
    assert all("tae.tsv.gz cannot be read" in r.error for r in read_results(path) if not r.ok)
    assert all(r.started and r.machine for r in read_results(path))
    run_plan(planned(fits.tasks[::2], folder), path, retry=True, listener=told)
    assert told.heard[-1] == ("ended", 3, 3)


def test_the_name_of_a_machine_is_not_that_of_a_process(monkeypatch):
    for cores, words in ((2, "2 cores"), (1, "1 core")):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert machine.__wrapped__().endswith(f", {words}")


def test_time_left():
    assert TimeLeft().seconds([task()], 1) is None
    left = TimeLeft([Result.of(task(), "ok", total_s=4.0), Result.of(task(), "error", total_s=900.0)])
    assert left.seconds([task(split=i) for i in range(6)], 2) == pytest.approx(12.0)
    assert left.seconds([task(timeout=1.0)], 1) == pytest.approx(1.0)
    assert left.seconds([task(data="letter")], 1) > 100.0
    assert left.seconds([task(model="unknown")], 1) == pytest.approx(4.0)


def test_jobs_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="jobs 0"):
        run_plan(planned([], None), tmp_path / "r.jsonl", jobs=0)


def test_a_stage_with_a_file_of_its_own_is_made_anew_and_comes_first(tmp_path, sets):
    own = tmp_path / "trained.jsonl"
    own.write_text("first")
    (tmp_path / "trained.1.jsonl").write_text("before that")
    before = []

    def replanned():
        before.append(own.read_text().count("\n"))
        return [task(split=5), task(split=6)]

    stages = [Stage([task(split=0)], results=own), Stage([task(split=5)], replanned=replanned, alone=True)]
    outcome = run_plan(Plan(stages, lambda _: Spool(sets)), tmp_path / "r.jsonl", jobs=2)
    assert outcome == Outcome(known=0, made=3, failed=0, timed_out=0)
    assert before == [1]  # what comes first is finished when the second stage is planned
    assert (tmp_path / "trained.2.jsonl").read_text() == "first"
    assert [r.jobs for r in read_results(own)] == [2]
    assert [(r.split, r.jobs) for r in read_results(tmp_path / "r.jsonl")] == [(5, 1), (6, 1)]


# Models that fail, hang or die, each in a process of its own.


def run(arrays, *tasks, jobs=1, started=lambda task: None):
    return {r.split: r for r in run_tasks(tasks, jobs, lambda name: arrays, started)}


def test_scores_and_clock_on_one_thread(arrays, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    result = run(arrays, task("Threads", wait=0.3))[0]
    assert result.ok
    assert result.extra == {"OMP_NUM_THREADS": "1", "torch": 1}
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
    waits = [task(split=i, wait=1.0) for i in range(2)]
    results = run(arrays, *waits, jobs=2)
    starts = [r.started for r in results.values()]
    assert max(starts) - min(starts) < 0.9
    assert {r.jobs for r in results.values()} == {2}


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux")
def test_peak_memory_is_that_of_the_fit(arrays):
    small, large, after = (task("Hungry", split=i, megabytes=mb) for i, mb in enumerate((1, 300, 1)))
    results = run(arrays, small, large, after)
    assert results[0].peak_mb < 60
    assert 290 < results[1].peak_mb < 360
    assert results[2].peak_mb < 60  # the mark of the fit before is forgotten


def test_no_tasks(arrays):
    assert run(arrays) == {}
