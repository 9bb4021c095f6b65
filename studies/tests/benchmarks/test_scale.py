"""scale.py keeps its figures and takes over those of an accelerator; its cost model finds what was put in."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scale_gpu
import scale_model
import scale_page
import scale_sweep
import scale_thousands
import torch
from _problems import clusters
from scale_model import Size

ROOT = Path(scale_model.__file__).resolve().parents[2]
SIZES = [Size(*s) for s in scale_model.GRID]
CONSTANTS = dict(zip(scale_model.TERMS, (9e-7, 5e-9, 2e-10, 3e-10, 8e-11, 2e-8, 4e-10), strict=True))


@pytest.fixture(scope="module")
def scale():
    """The script; it asks for two threads when it is imported, which the tests do not want."""
    import os

    before = dict(os.environ)
    import scale

    os.environ.clear()
    os.environ.update(before)
    return scale


def _runs(constants):
    sizes = [*SIZES, Size(*scale_model.CHECK)]
    checks = [False] * len(SIZES) + [True]
    return [
        {"N": s.N, "D": s.D, "P": s.P, "C": s.C, "s": scale_model.predicted(constants, s), "check": check}
        for s, check in zip(sizes, checks, strict=True)
    ]


def test_constants_are_found_again_and_predict_a_run_that_was_left_out():
    found = scale_model.summary(_runs(CONSTANTS))
    assert found["largest_error_of_fit"] < 1e-6
    (check,) = found["check"]
    assert check["predicted_s"] == pytest.approx(check["measured_s"], rel=1e-6)
    for term, value in CONSTANTS.items():
        assert found["constants"][term] == pytest.approx(value, rel=1e-4)


def test_constants_are_never_negative():
    rng = np.random.default_rng(0)
    seconds = [scale_model.predicted(CONSTANTS, s) * rng.uniform(0.8, 1.25) for s in SIZES]
    assert min(scale_model.fitted(SIZES, seconds).values()) >= 0.0


def test_flops_are_those_of_the_operations_counted_one_by_one():
    N, D, P, C = 7, 3, 5, 4
    per_row = 2 * D * P  # x^T z for every inducing point
    per_row += P * P  # a triangular solve: P (P + 1) / 2 products and as many sums, about
    per_row += 2 * P * C  # one draw of every class
    per_row += 2 * (2 * P + 2 * P * P)  # means and roots of the variances of two classes
    per_row += 2 * (2 * P * P + 2 * P)  # sums of two classes
    per_class = P**3 / 3 + P**3 / 3 + 32 * P * P + 2 * P * P
    assert scale_model.flops(Size(N, D, P, C)) == pytest.approx(N * per_row + C * per_class)


def test_machines_share_rows_and_pay_for_messages():
    one, many = Size(10**9, 50, 64, 10), Size(10**9, 50, 64, 10, 100)
    alone = scale_model.predicted(CONSTANTS, one)
    assert alone / 100 < scale_model.predicted(CONSTANTS, many) < alone / 50
    assert scale_model.messages(one) == {"messages": 0, "bytes": 0, "rounds": 0}
    sent = scale_model.messages(many)
    assert sent["messages"] == 198
    assert sent["rounds"] == 14
    assert sent["bytes"] == 198 * 8 * 10 * (64 * 64 + 64)
    # The bytes that a pass really sends.
    q = scale_sweep.gaussian.prior(10, 64, torch.zeros(1, dtype=torch.float64))
    sums = 8 * (q.m.numel() + q.R.numel())
    assert scale_model.posterior_bytes(one) == sums


def test_a_sweep_in_chunks_is_the_sweep_of_the_library():
    X, y = clusters(6000, 4, 3)
    problem = scale_sweep.SweepProblem.of(X, y, 8)
    with torch.no_grad():
        whole = problem.sweep(None, 6000)
        parts = problem.sweep(problem.features(1000), 1000)
    torch.testing.assert_close(parts.m, whole.m)
    torch.testing.assert_close(parts.R, whole.R)


def test_products_are_as_many_as_the_rows_ask_for():
    X, y = clusters(3000, 4, 3)
    problem = scale_sweep.SweepProblem.of(X, y, 8)
    with torch.no_grad():
        found = scale_sweep.products(problem, None, 1000)
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


def test_figures_of_an_accelerator_are_taken_over(scale):
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


def test_known_figures_are_kept_until_the_code_changes(scale):
    content = {"classes_1000.speedup": 3.0, "details": {"classes": {"bayesvm": "1"}}}
    assert scale.is_known(content, "classes", "1")
    assert not scale.is_known(content, "classes", "2")
    assert not scale.is_known({"details": content["details"]}, "classes", "1")
    assert list(scale.ordered({**content, "poker.peak_gb": 1.0, "config": {}})) == [
        "poker.peak_gb",
        "classes_1000.speedup",
        "details",
        "config",
    ]
    assert not scale.report(content)
    assert scale.report({"classes_1000.speedup": 100.0})


def test_the_page_gets_its_tables_and_keeps_its_words(scale, tmp_path):
    page = tmp_path / "scale.md"
    page.write_text((ROOT / "docs" / "scale.md").read_text())
    model = scale_model.summary(_runs(CONSTANTS))
    content = {"poker.peak_gb": 1.25, "model": model, "details": {"gpu": {"model": model}}}
    for _ in range(2):  # writing again replaces
        scale_page.write_page(page, content, scale.BARS)
    text = page.read_text()
    assert text.count("| poker: peak memory above the data, GB | 1.25 | <= 2 |") == 1
    assert "not measured" in text
    assert text.count("| 1e9 | 50 | 64 | 10 | 100 |") == 1
    assert "| term, ns | two cores | accelerator |" in text
    assert set(scale_page.WORDS) == set(scale.BARS)
    assert set(scale_page.UNITS) == set(scale_model.TERMS)


def test_fits_on_an_accelerator_are_shown_with_what_they_differ_by():
    sweep = {
        f"{kind}, {precision}, chunks of {n}": {"median_ms": ms}
        for kind, add in (("kept", 0.0), ("anew", 10.0))
        for precision, ms0 in (("float64", 7.0), ("float32 moments", 8.0))
        for n, ms in ((1, ms0 + add), (2, 2 * ms0 + add))
    }
    gpu = {
        "sweep": sweep,
        "from_host": {"median_ms": 33.0},
        "fit": {"fit_s": 3.0},
        "machine": {"name": "a GPU"},
        "estimators": {"BayesianSVC()": {"max_difference": 2.4e-05}},
    }
    text = scale_page.on_gpu(gpu)
    assert "| a sweep, features kept, ms | 7 |" in text
    assert "| … features made anew | 17 |" in text
    assert "| `BayesianSVC()` | 2e-5 |" in text


def test_a_trial_is_not_written_into_the_file_of_figures(scale, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scale.py", "--json", str(tmp_path / "f.json"), "--rows", "2000"])
    with pytest.raises(SystemExit):
        scale.main()
    assert "without --json" in capsys.readouterr().err


@pytest.mark.slow
def test_thousands_of_classes_are_measured_in_a_process_of_their_own():
    figures, record = scale_thousands.measure(30)
    assert not figures
    assert record["classes"] == 30
    assert record["rows"] == 150
    assert record["predict"]["accuracy"] > 0.9
    assert record["top_5, at most 0.1 left out"]["off_max"] <= 0.1


@pytest.mark.slow
def test_the_script_for_accelerators_runs_anywhere(tmp_path):
    result = tmp_path / "gpu.json"
    command = [sys.executable, scale_gpu.__file__, "--device", "cpu", "--rows", "2000", "--repeats", "1"]
    steps = ("sweep", "agreement", "from_host")
    command += ["--data", str(tmp_path), "--json", str(result), *(a for s in steps for a in ("--only", s))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(result.read_text())
    assert content["data"]["note"].startswith("generated hands")
    for step in steps:
        assert "error" not in content[step], content[step]
    assert content["agreement"]["float64"]["mean_max_difference"] == 0.0
