"""GPflow's sparse variational Gaussian process as a classifier, in an environment of its own.

TensorFlow wants other versions of numpy than this library, so GPflow lives in
another Python, which BAYESVM_GPFLOW_PYTHON names (else ``.venv-peers`` of the
working directory, which ``make peers-env`` makes). A script there trains and
answers; this class talks to it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

from bayesvm_studies.peer_inputs import peer_inputs

PYTHON_VARIABLE = "BAYESVM_GPFLOW_PYTHON"
_SCRIPT = Path(__file__).with_name("gpflow_script.py")


def gpflow_python() -> str | None:
    """A Python that has GPflow, or None."""
    if named := os.environ.get(PYTHON_VARIABLE):
        return named
    beside = Path(".venv-peers") / "bin" / "python"
    if beside.is_file():
        return str(beside.absolute())
    return sys.executable if find_spec("gpflow") else None


def gpflow_versions() -> dict[str, str]:
    """Versions in that Python."""
    program = (
        "from importlib.metadata import distributions\n"
        "v = {d.metadata['Name'].lower(): d.version for d in distributions()}\n"
        "import json; print(json.dumps({'gpflow': v['gpflow'], "
        "'tensorflow': v.get('tensorflow') or v.get('tensorflow-cpu')}))"
    )
    python = gpflow_python()
    if python is None:
        raise ImportError(f"no Python with GPflow: make peers-env, or name one in {PYTHON_VARIABLE}")
    answer = subprocess.run([python, "-c", program], capture_output=True, text=True)
    if answer.returncode:
        raise ImportError(f"{python} has no GPflow: {answer.stderr.strip().splitlines()[-1]}")
    versions: dict[str, str] = json.loads(answer.stdout)
    return versions


class GPflowSVGP(ClassifierMixin, BaseEstimator):
    """Robust-max likelihood, one ARD kernel, Adam on all rows; settings as in studies/benchmarks/peers.py.

    Parameters
    ----------
    n_inducing : int
    learning_rate : float
    steps : int
    random_state : int
    """

    warms_itself = True

    def __init__(
        self, n_inducing: int = 64, learning_rate: float = 0.02, steps: int = 500, random_state: int = 0
    ) -> None:
        self.n_inducing = n_inducing
        self.learning_rate = learning_rate
        self.steps = steps
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train in the other Python; ``fit_seconds_`` leaves its start and its compiling out."""
        python = gpflow_python()
        if python is None:
            raise ImportError(f"no Python with GPflow: make peers-env, or name one in {PYTHON_VARIABLE}")
        given = peer_inputs(X, y, self.n_inducing, self.random_state)
        self.scaler_, self.classes_ = given.scaler, given.classes
        self._folder = tempfile.TemporaryDirectory(prefix="bayesvm-gpflow-")
        rows = Path(self._folder.name) / "rows.npz"
        np.savez(rows, S=given.S, labels=given.labels, Z=given.Z)
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""}
        self._process = subprocess.Popen(
            [python, str(_SCRIPT), str(rows), str(self.learning_rate), str(self.steps)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **quiet},
        )
        answer = self._answer()
        self.fit_seconds_ = float(answer["fit_s"])
        self.details_ = {"n_inducing": len(given.Z), "compile_s": answer["compile_s"]}
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.floating]:
        """Probabilities of the classes."""
        rows = Path(self._folder.name) / "test.npy"
        np.save(rows, self.scaler_.transform(X))
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rows}\n")
        self._process.stdin.flush()
        answer = self._answer()
        self.predict_seconds_, self.peak_mb_ = float(answer["predict_s"]), float(answer["peak_mb"])
        return np.load(answer["proba"])

    def _answer(self) -> dict[str, Any]:
        """The next line that the script writes, or its complaint."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, said = self._process.communicate()
            raise RuntimeError(f"GPflow: {(said.strip().splitlines() or ['it ended without a word'])[-1]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __del__(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None:
            process.kill()
            process.communicate()
