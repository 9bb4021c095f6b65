"""Figures are kept and taken over from an accelerator; the cost model finds what was put in."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from bayesvm_studies.benchmarks import cost_model, scale, scale_gpu, sweep
from bayesvm_studies.benchmarks.common import clusters
from bayesvm_studies.benchmarks.cost_model import Size

SIZES = [Size(*s) for s in cost_model.GRID]
CONSTANTS = dict(zip(cost_model.TERMS, (9e-7, 5e-9, 2e-10, 3e-10, 8e-11, 2e-8, 4e-10), strict=True))


def _runs(constants):
    sizes = [*SIZES, Size(*cost_model.CHECK)]
    checks = [False] * len(SIZES) + [True]
    return [
        {"N": s.N, "D": s.D, "P": s.P, "C": s.C, "s": cost_model.predicted(constants, s), "check": check}
        for s, check in zip(sizes, checks, strict=True)
    ]


def test_constants_are_found_again_and_predict_a_run_that_was_left_out():
    found = cost_model.summary(_runs(CONSTANTS))
    assert found["largest_error_of_fit"] < 1e-6
    (check,) = found["check"]
    assert check["predicted_s"] == pytest.approx(check["measured_s"], rel=1e-6)
    for term, value in CONSTANTS.items():
        assert found["constants"][term] == pytest.approx(value, rel=1e-4)


def test_constants_are_never_negative():
    rng = np.random.default_rng(0)
    seconds = [cost_model.predicted(CONSTANTS, s) * rng.uniform(0.8, 1.25) for s in SIZES]
    assert min(cost_model.fitted(SIZES, seconds).values()) >= 0.0


def test_flops_are_those_of_the_operations_counted_one_by_one():
    N, D, P, C = 7, 3, 5, 4
    per_row = 2 * D * P  # x^T z for every inducing point
    per_row += P * P  # a triangular solve: P (P + 1) / 2 products and as many sums, about
    per_row += 2 * P * C  # one draw of every class
    per_row += 2 * (2 * P + 2 * P * P)  # means and roots of the variances of two classes
    per_row += 2 * (2 * P * P + 2 * P)  # sums of two classes
    per_class = P**3 / 3 + P**3 / 3 + 32 * P * P + 2 * P * P
    assert cost_model.flops(Size(N, D, P, C)) == pytest.approx(N * per_row + C * per_class)


def test_machines_share_rows_and_pay_for_messages():
    one, many = Size(10**9, 50, 64, 10), Size(10**9, 50, 64, 10, 100)
    alone = cost_model.predicted(CONSTANTS, one)
    assert alone / 100 < cost_model.predicted(CONSTANTS, many) < alone / 50
    assert cost_model.messages(one) == {"messages": 0, "bytes": 0, "rounds": 0}
    sent = cost_model.messages(many)
    assert sent["messages"] == 198
    assert sent["rounds"] == 14
    assert sent["bytes"] == 198 * 8 * 10 * (64 * 64 + 64)
    # The bytes that a pass really sends.
    q = sweep.gaussian.prior(10, 64, torch.zeros(1, dtype=torch.float64))
    sums = 8 * (q.m.numel() + q.R.numel())
    assert cost_model.posterior_bytes(one) == sums


def test_a_sweep_in_chunks_is_the_sweep_of_the_library():
    X, y = clusters(6000, 4, 3)
    problem = sweep.SweepProblem.of(X, y, 8)
    with torch.no_grad():
        whole = problem.sweep(None, 6000)
        parts = problem.sweep(problem.features(1000), 1000)
    torch.testing.assert_close(parts.m, whole.m)
    torch.testing.assert_close(parts.R, whole.R)


def test_every_stage_of_a_sweep_is_clocked_and_left_as_it_was():
    problem = sweep.SweepProblem.of(*clusters(3000, 4, 3), 8)
    parts = {}
    with torch.no_grad(), sweep.stages("cpu", parts):
        problem.sweep()
    known = dict(parts)
    assert {"whitening", "rivals", "groups", "moments", "sites", "sums", "posterior", "bound"} <= set(known)
    problem.sweep()
    assert parts == known


def test_products_are_as_many_as_the_rows_ask_for():
    X, y = clusters(3000, 4, 3)
    problem = sweep.SweepProblem.of(X, y, 8)
    with torch.no_grad():
        found = sweep.products(problem, None, 1000)
        for _, product in found:
            product()
    rows = {}
    for what, product in found:
        if what.startswith("A_j"):
            parts = next(a for a in product.args if isinstance(a, list))
            rows[what] = rows.get(what, 0) + sum(len(part) for part in parts)
        elif what in ("X Z^T", "A v_d^T"):
            rows[what] = rows.get(what, 0) + len(product.args[0])
    assert rows["X Z^T"] == rows["A v_d^T"] == 3000
    assert {rows[w] for w in rows if w.startswith("A_j")} == {6000}


def test_figures_of_an_accelerator_are_taken_over():
    content = {"details": {"sweep": {"kept": {"sweep_s": 1.0}, "anew": {"sweep_s": 3.0}}}}
    gpu = {
        "sweep": {
            "kept, float64, chunks of 9": {"median_ms": 10.0},
            "kept, float64, chunks of 8": {"median_ms": 12.0},
            "kept, float32 moments, chunks of 9": {"median_ms": 1.0},
            "anew, float64, chunks of 9": {"median_ms": 20.0},
        },
        "grid": {"runs": _runs(CONSTANTS)},
    }
    merged = scale.with_gpu(content, gpu)
    assert merged["gpu.speedup"] == 100.0
    assert merged["details"]["gpu"]["speedup"] == {"kept": 100.0, "anew": 150.0}
    assert "constants" in merged["details"]["gpu"]["model"]
    with pytest.raises(SystemExit, match="--only sweep"):
        scale.with_gpu({}, gpu)


def test_known_figures_are_kept_until_the_code_changes():
    content = {"classes_1000.speedup": 3.0, "details": {"classes": {"bayesvm": "1"}}}
    assert scale.is_known(content, "classes", "1")
    assert not scale.is_known(content, "classes", "2")
    assert not scale.is_known({"details": content["details"]}, "classes", "1")
    assert list(scale.ordered({**content, "poker.peak_gb": 1.0, "config": {}})) == [
        "poker.peak_gb",
        "classes_1000.speedup",
        "details",
    ]
    assert not scale.report(content)
    assert scale.report({"classes_1000.speedup": 100.0})


def test_a_trial_is_not_written_into_the_file_of_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scale", "--json", str(tmp_path / "f.json"), "--rows", "2000"])
    with pytest.raises(SystemExit):
        scale.main()
    assert "without --json" in capsys.readouterr().err


@pytest.mark.slow
def test_thousands_of_classes_are_measured_in_a_process_of_their_own():
    figures, record = scale.thousands(30)
    assert not figures
    assert record["classes"] == 30
    assert record["rows"] == 150
    assert record["predict"]["accuracy"] > 0.9
    assert record["top_5, at most 0.1 left out"]["off_max"] <= 0.1


@pytest.mark.slow
def test_the_script_for_accelerators_runs_anywhere(tmp_path):
    result = tmp_path / "gpu.json"
    command = [
        sys.executable,
        "-m",
        scale_gpu.__name__,
        "--device",
        "cpu",
        "--rows",
        "2000",
        "--repeats",
        "1",
    ]
    steps = ("sweep", "agreement", "from_host")
    command += ["--data", str(tmp_path), "--json", str(result), *(a for s in steps for a in ("--only", s))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(result.read_text())
    assert content["data"]["note"].startswith("generated hands")
    for step in steps:
        assert "error" not in content[step], content[step]
    assert content["agreement"]["float64"]["mean_max_difference"] == 0.0
