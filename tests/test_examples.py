"""The example scripts run, as scripts, in a folder of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Each is a process of its own, so most are slow tests; what they show is tested feature by feature.
FAST = {"custom_kernel", "tables", "uncertainty"}


def run(script, folder, *arguments):
    environment = {**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(script), *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(p, id=p.stem, marks=() if p.stem in FAST else pytest.mark.slow)
        for p in EXAMPLES
        if p.stem != "digits"
    ],
)
def test_example_runs_and_leaves_nothing_behind(script, tmp_path):
    assert run(script, tmp_path).strip()
    assert list(tmp_path.iterdir()) == []


def test_digits_prints_its_figures_and_writes_its_files(tmp_path):
    output = run(ROOT / "examples" / "digits.py", tmp_path, tmp_path / "out")
    table = dict(re.findall(r"^(accuracy|log-loss|calibration error) +(\S+ +\S+)$", output, re.M))
    accuracy_loo, accuracy = map(float, table["accuracy"].split())
    loss_loo, loss = map(float, table["log-loss"].split())
    assert accuracy > 0.95
    assert abs(accuracy_loo - accuracy) < 0.02
    assert abs(loss_loo - loss) < 0.05
    assert "calibration error" in table
    *_, figures, model, picture = output.splitlines()
    assert f"accuracy {accuracy:.4f}, log-loss {loss:.4f}" in figures
    assert model.endswith(str(tmp_path / "out" / "digits.skops"))
    assert picture.endswith(str(tmp_path / "out" / "digits.png"))
    assert (tmp_path / "out" / "digits.png").stat().st_size > 10_000

    from sklearn.datasets import load_digits

    import bayesvm

    X, y = load_digits(return_X_y=True)
    assert bayesvm.load(tmp_path / "out" / "digits.skops").score(X, y) > 0.95


@pytest.mark.slow
def test_readme_figure_is_written(tmp_path):
    run(ROOT / "docs" / "figures" / "decision_regions.py", tmp_path, tmp_path)
    assert 10_000 < (tmp_path / "decision_regions.png").stat().st_size < 300_000
