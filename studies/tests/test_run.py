"""Runs that are killed, stopped or repeated: nothing is lost and nothing counts twice."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from bayesvm_studies.results import Result, Store, read_results
from bayesvm_studies.runner import Outcome, Plan, Standing, TimeLeft, run_plan, standing, unfinished
from bayesvm_studies.spool import Spool
from bayesvm_studies.versions import machine
from studies.tests.datasets.folders import iris_folder
from studies.tests.doubles import task

WAIT = 0.2
N_TASKS = 14


def plan(n_tasks=N_TASKS):
    return Plan([task(split=i % 10, model=f"model{i // 10}", wait=WAIT) for i in range(n_tasks)])


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
from bayesvm_studies.run import run_plan
from studies.tests.test_run import plan
run_plan(plan(), sys.argv[1], data=sys.argv[2], jobs=2)
"""


def start(path, sets):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), str(sets)], env=environment)


def lines(path):
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def workers_of(parent):
    found = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True).stdout
    rows = (line.split(None, 2) for line in found.splitlines()[1:])
    return [int(pid) for pid, ppid, args in rows if int(ppid) == parent and "experiments.worker" in args]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:  # nobody may have collected it yet
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs Linux")
@pytest.mark.parametrize("moment", [2, 7])
def test_killed_in_the_middle_and_resumed(tmp_path, sets, moment):
    path = tmp_path / "results.jsonl"
    process = start(path, sets)
    deadline = time.monotonic() + 90
    while lines(path) < moment and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = workers_of(process.pid)
    process.kill()  # not asked: no clean-up
    process.wait()
    before = read_results(path)
    assert moment <= len(before) < N_TASKS
    assert len(workers) == 2
    with path.open("a") as file:  # as if it had been killed while writing
        file.write('{"key": "')

    told = Told()
    outcome = run_plan(plan(), path, data=sets, jobs=2, listener=told)
    after = read_results(path)
    assert outcome == Outcome(known=len(before), made=N_TASKS - len(before), failed=0, timed_out=0)
    assert after[: len(before)] == before
    assert Counter(r.key for r in Store(path).results()) == Counter(t.key for t in plan().tasks)
    assert all(r.ok for r in after)
    assert told.heard[0] == ("planned", len(before), N_TASKS - len(before))
    assert told.heard[-1] == ("ended", outcome.made, outcome.made)

    assert run_plan(plan(), path, data=sets) == Outcome(N_TASKS, 0, 0, 0)
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
    deadline = time.monotonic() + 90
    while lines(path) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) != 0
    assert 3 <= len(read_results(path)) < N_TASKS


def test_failures_are_recorded_and_retried_on_request(tmp_path, sets):
    path, file = tmp_path / "results.jsonl", tmp_path / "ready"
    fits = Plan([task("FailsOnce", file=str(file)), task(split=1), task(split=2, wait=30.0, timeout=0.3)])
    assert run_plan(fits, path, data=sets) == Outcome(known=0, made=3, failed=1, timed_out=1)
    assert run_plan(fits, path, data=sets) == Outcome(known=3, made=0, failed=0, timed_out=0)
    file.touch()
    assert run_plan(fits, path, data=sets, retry=True) == Outcome(known=1, made=2, failed=0, timed_out=1)
    assert {r.split: r.status for r in read_results(path)} == {0: "ok", 1: "ok", 2: "timeout"}
    result = next(r for r in read_results(path) if r.split == 0)
    assert result.machine
    assert "python" in result.environment
    assert result.extra == {}


def test_every_part_of_the_key_matters():
    base = task(split=0, wait=1.0)
    others = [
        task(split=1, wait=1.0),
        task(split=0, wait=2.0),
        task("Failing", split=0, wait=1.0),
        task(split=0, wait=1.0, model="other"),
        task(split=0, wait=1.0, data="glass"),
        type(base)(**{**base.__dict__, "versions": {"double": "2"}}),
        type(base)(**{**base.__dict__, "data_digest": "other rows"}),
        type(base)(**{**base.__dict__, "protocol": "paper"}),
    ]
    assert len({t.key for t in [base, *others]}) == len(others) + 1
    # How long it may take is no part of what it is.
    assert task(split=0, wait=1.0, timeout=3.0).key == base.key


def test_other_versions_are_measured_anew_unless_told_otherwise():
    old = task()
    new = type(old)(**{**old.__dict__, "versions": {"double": "2"}})
    results = [Result.of(old, "ok")]
    assert unfinished([new], results) == [new]
    assert unfinished([new], results, any_version=True) == []
    assert unfinished([old], results) == []
    failed = [Result.of(old, "error")]
    assert unfinished([old], failed) == []
    assert unfinished([old], failed, retry=True) == [old]


def test_known_failures_are_counted():
    fits = [task(split=i) for i in range(4)]
    results = [Result.of(t, s) for t, s in zip(fits, ("error", "timeout", "error"), strict=False)]
    results.append(Result.of(fits[2], "ok"))  # tried again
    assert standing(fits, results) == Standing([fits[3]], known=3, failed=1, timed_out=1)
    assert standing(fits, results, retry=True) == Standing([*fits[:2], fits[3]], 1, 0, 0)
    newer = type(fits[2])(**{**fits[2].__dict__, "versions": {"double": "2"}})
    results.append(Result.of(newer, "error"))
    assert standing([newer], results) == Standing([], 1, 1, 0)
    assert standing([newer], results, any_version=True) == Standing([], 1, 0, 0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_set_that_cannot_be_read_stops_nobody(tmp_path, jobs):
    folder = iris_folder(tmp_path / "pmlb")
    bad = folder / "tae" / "tae.tsv.gz"
    bad.parent.mkdir()
    bad.write_bytes(b"no table")
    fits = Plan([task(data=name, split=i) for i in range(3) for name in ("tae", "iris")])
    path = tmp_path / "r.jsonl"
    told = Told()
    outcome = run_plan(fits, path, data=folder, jobs=jobs)
    assert outcome == Outcome(known=0, made=6, failed=3, timed_out=0)
    assert {(r.data, r.status) for r in read_results(path)} == {("tae", "error"), ("iris", "ok")}
    assert all("tae.tsv.gz cannot be read" in r.error for r in read_results(path) if not r.ok)
    assert all(r.started and r.machine for r in read_results(path))
    run_plan(Plan(fits.tasks[::2]), path, data=folder, retry=True, jobs=jobs, listener=told)
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
        run_plan(Plan([]), tmp_path / "r.jsonl", jobs=0)
