"""peers.py keeps its results, repeats what changed, and goes on without a peer that is not there."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import peers
import pytest
from peers_contestants import CONTESTANTS, PEERS, Contestant, run, version, with_option

SCRIPT = Path(peers.__file__)
IDENTITY = {"version": "1", "options": {"rate": 0.1}, "problem": "abc", "provisional": False}
RECORD = {**IDENTITY, "data": "a", "model": "m", "seconds": [1.0], "log_loss": [0.5], "process_s": 3.0}


def test_results_survive_their_file(tmp_path):
    path = tmp_path / "deep" / "results.jsonl"
    results = {("a", "m"): RECORD, ("a", "k"): {**RECORD, "model": "k"}}
    peers.write_results(path, results)
    assert peers.read_results(path) == results
    assert [p.name for p in path.parent.iterdir()] == ["results.jsonl"]
    assert peers.read_results(tmp_path / "none") == {}


def test_what_is_the_same_is_not_run_again():
    assert peers.is_known(RECORD, IDENTITY)
    assert not peers.is_known(None, IDENTITY)
    assert not peers.is_known({**RECORD, "error": "x"}, IDENTITY)
    assert peers.is_known({**RECORD, "note": "stopped after 600 s"}, IDENTITY)
    for key, value in {"version": "2", "options": {}, "problem": "d"}.items():
        assert not peers.is_known({**RECORD, key: value}, IDENTITY)


def test_a_trial_does_not_stand_in_for_a_final_run_but_the_other_way_round():
    assert not peers.is_known({**RECORD, "provisional": True}, IDENTITY)
    assert peers.is_known(RECORD, {**IDENTITY, "provisional": True})


def test_time_left_comes_from_the_last_time_or_from_the_same_model():
    todo = [("a", "m"), ("b", "m")]
    assert peers.seconds_left(todo, {}, {("a", "m"): RECORD}) is None
    assert peers.seconds_left(todo, {("c", "m"): {"process_s": 5.0}}, {("a", "m"): RECORD}) == 8.0


def test_table_and_outcome_tell_what_happened():
    stopped = {**RECORD, "seconds": [1.0, 2.0, 3.0], "log_loss": [0.5, 0.2, 0.4], "stopped": "step 4: E: x"}
    assert peers.outcome(stopped) == "log-loss 0.2000 after 2.00 of 3.00 s (step 4: E: x)"
    (row,) = peers.table({("a", "m"): stopped})
    assert (row["log_loss"], row["best_log_loss"], row["best_s"], row["total_s"]) == (0.4, 0.2, 2.0, 3.0)
    assert peers.outcome({"error": "E: x"}) == "FAILED: E: x"
    assert peers.table({("a", "m"): {"note": "left out"}}) == [
        {"data": "a", "model": "m", "note": "left out"}
    ]


def test_options_of_a_model_can_be_set():
    assert peers.parse_option("gpflow.learning_rate=0.05") == ("gpflow", "learning_rate", 0.05)
    with pytest.raises(argparse.ArgumentTypeError, match=r"give MODEL.OPTION=VALUE"):
        peers.parse_option("nobody.rate=1")
    changed = with_option(CONTESTANTS["gpytorch"], "batch_size", 32)
    assert changed.options["batch_size"] == 32
    assert "batch_size" not in CONTESTANTS["gpytorch"].options


def test_a_version_names_the_packages_and_the_worker():
    assert version(CONTESTANTS["bayesvm"]).startswith("bayesvm ")
    assert "worker " in version(CONTESTANTS["svc"])
    with pytest.raises(RuntimeError, match=r"no_such_package is not installed.*make peers-env"):
        version(Contestant("", "peers_sklearn.py", {}, ("no_such_package",)))


def test_a_model_that_cannot_or_may_not_run_leaves_a_note(tmp_path):
    big = Contestant("", "peers_sklearn.py", {}, max_rows=10)
    assert run(big, tmp_path, 11) == {"note": "left out: 11 rows, more than 10"}
    slow = Contestant("", "peers_sklearn.py", {}, limit_s=0.01)
    assert run(slow, tmp_path, 11)["note"] == "stopped after 0.01 s"


def test_gp_peers_are_those_that_race():
    assert PEERS == ("gpflow", "gpflow_minibatch", "gpytorch", "gpytorch_minibatch")


def test_run_goes_on_without_a_missing_peer_and_is_not_repeated(tmp_path):
    results, summary = tmp_path / "results.jsonl", tmp_path / "summary.json"
    arguments = ["--subset", "digits", "--models", "gpflow", "logistic_regression", "svc"]

    def call():
        return subprocess.run(
            [sys.executable, SCRIPT, *arguments, "--results", results, "--json", summary],
            env={**os.environ, "BAYESVM_PEERS_ENV": str(tmp_path / "nowhere")},
            capture_output=True,
            text=True,
            check=False,
        )

    first = call()
    assert first.returncode == 1
    assert "WITHOUT GPflow SVGP" in first.stderr
    assert "make peers-env" in first.stderr
    assert "0 runs known, 2 to do" in first.stderr
    written = json.loads(summary.read_text())
    assert [row["model"] for row in written["table"]] == ["logistic_regression", "svc"]
    assert all(row["accuracy"] > 0.95 for row in written["table"])
    assert written["races"] == []
    before = results.read_bytes()
    assert "2 runs known, 0 to do" in call().stderr
    assert results.read_bytes() == before
