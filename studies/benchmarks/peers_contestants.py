"""Who takes part in peers.py, how each is set up, and how one is run in a process of its own."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from _common import ROOT, source_version
from peers_problems import N_INDUCING, SEED
from peers_race import OURS

__all__ = ["CONTESTANTS", "PEERS", "Contestant", "run", "version", "with_option"]

Record = dict[str, Any]

STEPS = 500
# Best on digits among .01 to .8, on all rows and on minibatches; studies/benchmarks/README.md has the table.
GPYTORCH_RATE, GPYTORCH_MINIBATCH_RATE = 0.4, 0.2
GPFLOW_RATE = 0.02
BATCH_SIZE = 256
_HERE = Path(__file__).parent
_PEERS_PYTHON = Path(os.environ.get("BAYESVM_PEERS_ENV", ROOT / ".venv-peers")) / "bin" / "python"
_ONE_THREAD = {
    **dict.fromkeys(
        (
            "OMP_NUM_THREADS",
            "MKL_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "TF_NUM_INTRAOP_THREADS",
            "TF_NUM_INTEROP_THREADS",
        ),
        "1",
    ),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_USE_LEGACY_KERAS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}


@dataclass(frozen=True)
class Contestant:
    """One model with its settings.

    Attributes
    ----------
    label : str
        Its name in tables and figures.
    worker : str
        Script that runs it.
    options : dict
        What the worker is told; ``repeats`` is how often it runs, for the
        median of its times.
    packages : tuple of str
        Whose versions an old result depends on.
    elsewhere : bool
        Whether it needs the environment of ``make peers-env``.
    max_rows : int or None
        Training rows beyond which it is not even tried.
    limit_s : float
        Seconds after which it is stopped.
    """

    label: str
    worker: str
    options: dict[str, Any]
    packages: tuple[str, ...] = ("scikit-learn",)
    elsewhere: bool = False
    max_rows: int | None = None
    limit_s: float = 1800.0


def _gpflow(label: str, **options: Any) -> Contestant:
    options = {"learning_rate": GPFLOW_RATE, "steps": STEPS, **options}
    return Contestant(label, "peers_gpflow.py", options, ("gpflow", "tensorflow"), elsewhere=True)


def _gpytorch(label: str, **options: Any) -> Contestant:
    options = {"learning_rate": GPYTORCH_RATE, "steps": STEPS, **options}
    return Contestant(label, "peers_gpytorch.py", options, ("gpytorch", "torch"))


def _sklearn(label: str, classifier: str, repeats: int = 3, **limits: Any) -> Contestant:
    options = {"classifier": classifier, "repeats": repeats}
    return Contestant(label, "peers_sklearn.py", options, **limits)


CONTESTANTS: dict[str, Contestant] = {
    "gpflow": _gpflow("GPflow SVGP"),
    "gpflow_minibatch": _gpflow("GPflow SVGP, minibatches", batch_size=BATCH_SIZE),
    "gpytorch": _gpytorch("GPyTorch SVGP"),
    "gpytorch_minibatch": _gpytorch(
        "GPyTorch SVGP, minibatches", learning_rate=GPYTORCH_MINIBATCH_RATE, batch_size=BATCH_SIZE
    ),
    OURS: Contestant(
        "BayesianSVC",
        "peers_bayesvm.py",
        {"n_inducing": N_INDUCING, "random_state": SEED, "repeats": 3},
        ("bayesvm", "torch"),
    ),
    "logistic_regression": _sklearn("logistic regression", "logistic_regression"),
    "svc": _sklearn("SVC, Platt scaling", "svc"),
    "random_forest": _sklearn("random forest, 200 trees", "random_forest"),
    "hist_gradient_boosting": _sklearn("HistGradientBoosting", "hist_gradient_boosting"),
    # Its cost grows with the cube of the rows, once per class and step of its optimiser.
    "gpc": _sklearn("GaussianProcessClassifier", "gpc", repeats=1, max_rows=2000, limit_s=600.0),
}
PEERS = tuple(name for name in CONTESTANTS if name.startswith(("gpflow", "gpytorch")))


def with_option(contestant: Contestant, name: str, value: Any) -> Contestant:
    """The same contestant told something else."""
    return replace(contestant, options={**contestant.options, name: value})


@cache
def _peers_versions() -> dict[str, str]:
    """Versions of the packages in the environment of the peers."""
    if not _PEERS_PYTHON.exists():
        raise RuntimeError(
            f"GPflow has no environment at {_PEERS_PYTHON.parents[1]}: make it with `make peers-env`"
        )
    program = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
    )
    out = subprocess.run([_PEERS_PYTHON, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def version(contestant: Contestant) -> str:
    """What must be unchanged for an old result to count: packages and the worker's own code."""
    known = _peers_versions() if contestant.elsewhere else None
    parts = []
    for package in contestant.packages:
        try:
            number = known[package] if known is not None else importlib.metadata.version(package)
        except (KeyError, importlib.metadata.PackageNotFoundError):
            raise RuntimeError(f"{package} is not installed: install it with `make peers-env`") from None
        parts.append(f"{package} {source_version() if package == 'bayesvm' else number}")
    code = hashlib.sha256()
    for file in (contestant.worker, "peers_worker.py"):
        code.update((_HERE / file).read_bytes())
    return ", ".join([*parts, f"worker {code.hexdigest()[:8]}"])


def run(contestant: Contestant, problem_file: Path, n_rows: int) -> Record:
    """What the worker found, or a ``note`` why it was not run to its end, or an ``error``."""
    if contestant.max_rows is not None and n_rows > contestant.max_rows:
        return {"note": f"left out: {n_rows} rows, more than {contestant.max_rows}"}
    python = _PEERS_PYTHON if contestant.elsewhere else Path(sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        result_file = Path(folder) / "result.json"
        command = [
            python,
            _HERE / contestant.worker,
            problem_file,
            result_file,
            json.dumps(contestant.options),
        ]
        start = time.perf_counter()
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **_ONE_THREAD},
                capture_output=True,
                text=True,
                timeout=contestant.limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"note": f"stopped after {contestant.limit_s:g} s", "process_s": contestant.limit_s}
        process_s = round(time.perf_counter() - start, 2)
        if not result_file.exists():
            return {"error": f"the worker died with status {done.returncode}: {done.stderr[-400:]}"}
        return {**json.loads(result_file.read_text()), "process_s": process_s}
