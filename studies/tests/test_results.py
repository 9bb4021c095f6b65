"""Keys of tasks, and lines of results that are added whole or not at all."""

import csv
import io
import json
import lzma
import os
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec

import pytest

from bayesvm_studies.results import RECORDED_AS, Result, Store, read_results, tidy_csv
from studies.tests.doubles import task


def result(split, status="ok", **known):
    return Result.of(task(split=split), status, **known)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "down" / "results.jsonl"


def test_what_was_added_comes_back(path):
    store = Store(path)
    first = result(0, n_test=15, correct=14, bins=[[14, 15, 14, 14.25]], extra={"n_iter": 3}, started=1.5)
    assert store.add(first)
    assert store.add(result(1, "error", error="no\nmore"))
    assert read_results(path) == [first, result(1, "error", error="no\nmore")]
    assert len(path.read_text().splitlines()) == 2


def test_the_same_fit_is_not_counted_twice(path):
    assert Store(path).add(result(0, correct=1))
    assert not Store(path).add(result(0, correct=2))
    assert not Store(path).add(result(0, "error"))
    assert [r.correct for r in read_results(path)] == [1]


def test_a_failure_is_replaced_by_a_success(path):
    store = Store(path)
    for status in ("error", "timeout", "ok", "error"):
        store.add(result(0, status))
    assert [r.status for r in store.results()] == ["error", "timeout", "ok"]
    assert [r.status for r in read_results(path)] == ["ok"]


@pytest.mark.parametrize("torn", ['{"key":"abc', "{", "x" * 200_000])
def test_a_torn_line_is_ignored_and_removed(path, torn):
    Store(path).add(result(0))
    whole = path.read_text()
    with path.open("a") as file:
        file.write(torn)
    assert len(read_results(path)) == 1
    assert Store(path).add(result(1))
    assert path.read_text().startswith(whole)
    assert [r.split for r in read_results(path)] == [0, 1]
    assert path.read_text().count("\n") == 2


def test_a_file_that_is_only_a_torn_line(path):
    path.parent.mkdir(parents=True)
    path.write_text('{"key"')
    assert read_results(path) == []
    assert Store(path).add(result(0))
    assert len(read_results(path)) == 1


def test_results_of_later_versions_can_be_read(path):
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**json.loads(result(0).to_line()), "news": 1}) + "\n")
    assert read_results(path) == [result(0)]


WRITER = """
import sys
from bayesvm_studies.results import Store
from studies.tests.test_results import result
store = Store(sys.argv[1])
for split in range(int(sys.argv[2]), int(sys.argv[3])):
    store.add(result(split, extra={"padding": "x" * 3000}))
"""


def writer(path, first, last):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(first), str(last)], env=environment)


def test_several_processes_write_side_by_side(path):
    # Ranges overlap: what two processes have is kept once.
    writers = [writer(path, first, first + 60) for first in (0, 30, 60)]
    assert [process.wait(60) for process in writers] == [0, 0, 0]
    assert sorted(r.split for r in Store(path).results()) == list(range(120))


def test_a_writer_that_is_killed_leaves_whole_lines(path):
    process = writer(path, 0, 100_000)
    deadline = time.monotonic() + 60
    while (not path.is_file() or path.stat().st_size < 50_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    splits = [r.split for r in read_results(path)]
    assert splits == list(range(len(splits)))
    assert len(splits) > 5
    Store(path).add(result(len(splits)))
    assert len(read_results(path)) == len(splits) + 1


def compress(path):
    packed = path.with_name(path.name + ".xz")
    packed.write_bytes(lzma.compress(path.read_bytes()))
    path.unlink()
    return packed


def test_a_compressed_file_is_read_under_either_name(path):
    Store(path).add(result(0))
    packed = compress(path)
    assert read_results(path) == read_results(packed) == [result(0)]
    assert not path.exists()


def test_a_compressed_file_is_unpacked_before_a_line_is_added(path):
    Store(path).add(result(0))
    before = path.read_text()
    packed = compress(path)
    store = Store(packed)
    assert store.results() == [result(0)]
    assert not store.add(result(0))
    assert store.add(result(1))
    assert not packed.exists()
    assert path.read_text().startswith(before)
    assert [r.split for r in store.results()] == [r.split for r in read_results(path)] == [0, 1]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_every_part_of_the_key_matters():
    base = task(split=0, wait=1.0)
    others = [
        task(split=1, wait=1.0),
        task(split=0, wait=2.0),
        task("Failing", split=0, wait=1.0),
        task(split=0, wait=1.0, model="other"),
        task(split=0, wait=1.0, data="glass"),
        replace(base, versions={"double": "2"}),
        replace(base, data_digest="other rows"),
        replace(base, protocol="paper"),
    ]
    assert len({t.key for t in [base, *others]}) == len(others) + 1
    # How long it may take is no part of what it is.
    assert task(split=0, wait=1.0, timeout=3.0).key == base.key


def test_keys_do_not_change_when_code_moves():
    new = {"estimator": "bayesvm_studies.images.training:measure", "arguments": {"head": "a:B", "n": 1}}
    old = {**new, "estimator": "bayesvm.experiments.images.measure:measure"}
    assert replace(task(), config=new).key == replace(task(), config=old).key
    for module in RECORDED_AS:
        assert find_spec(module.partition(":")[0]) is not None


def test_the_tidy_table():
    results = [result(0, n_test=15, correct=12, bins=[[14, 15, 12, 14.25]], fit_s=2.0), result(1, "timeout")]
    rows = list(csv.DictReader(io.StringIO(tidy_csv(results))))
    ok, late = rows
    assert float(ok["accuracy"]) == 0.8
    assert late["accuracy"] == late["fit_s"] == ""
    needed = {"arguments", "seed", "versions", "commit", "machine", "started", "data", "model", "split"}
    assert needed <= set(ok)
    assert tidy_csv([]) == "\n"
