"""Sparse variational Gaussian processes of GPflow and GPyTorch, as classifiers and step by step.

One RBF kernel with a length scale per feature from sqrt(D), as in
BayesianSVC, shared by all classes; whitened q with full covariances; inducing
points learned too. ``fit`` and ``predict_proba`` are those of any classifier.
A benchmark calls ``begin`` with rows and inducing points of its own, then
``step`` and ``probabilities``.

TensorFlow needs other versions of numpy than this library, so GPflow lives in
another Python, which BAYESVM_GPFLOW_PYTHON names (else ``.venv-peers`` of the
working directory, which ``make peers-env`` makes).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from bayesvm_studies.worker import thread_environment

FloatArray = npt.NDArray[np.floating]
Rows = npt.NDArray[np.intp] | None

PYTHON_VARIABLE = "BAYESVM_GPFLOW_PYTHON"
_SCRIPT = Path(__file__).with_name("gpflow_script.py")
_NO_GPFLOW = f"no Python with GPflow: make peers-env, or name one in {PYTHON_VARIABLE}"
_ONE_THREAD = {
    **thread_environment(),
    **dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_USE_LEGACY_KERAS"), "1"),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONPATH": "",
}
_TEST_DRAWS = 256


class StepTime(NamedTuple):
    """Seconds of a step by the clock on the wall and by that of the processor."""

    wall_s: float
    processor_s: float


class _SVGP(ClassifierMixin, BaseEstimator):
    """What both have in common: preparing the rows, steps on all of them, predicting."""

    details_: dict[str, Any]

    def fit(self, X: Any, y: Any) -> Self:
        """Standardise, choose inducing points by k-means and train on all rows."""
        self.scaler_ = StandardScaler().fit(X)
        S = self.scaler_.transform(X)
        self.classes_, labels = np.unique(y, return_inverse=True)
        Z = np.unique(S, axis=0)
        if len(Z) > self.n_inducing:
            Z = KMeans(self.n_inducing, n_init=1, random_state=self.random_state).fit(S).cluster_centers_
        self.begin(S, labels.astype(np.int64), Z, len(self.classes_))
        self.details_ = {**self.details_, "n_inducing": len(Z)}
        self.fit_seconds_ = self.step(None, self.steps).wall_s
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes."""
        return self.probabilities(self.scaler_.transform(X))


class GPyTorchSVGP(_SVGP):
    """GPyTorch: independent functions, softmax likelihood with 10 draws a step, Adam, single precision.

    Parameters
    ----------
    n_inducing : int
    learning_rate : float
    steps : int
    random_state : int
    """

    def __init__(
        self, n_inducing: int = 64, learning_rate: float = 0.4, steps: int = 500, random_state: int = 0
    ) -> None:
        self.n_inducing = n_inducing
        self.learning_rate = learning_rate
        self.steps = steps
        self.random_state = random_state

    def begin(self, S: FloatArray, labels: npt.NDArray[Any], Z: FloatArray, n_classes: int, **_: Any) -> Self:
        """Build the model for standardised rows, class numbers and inducing points."""
        import torch

        gpytorch: Any = import_module("gpytorch")
        torch.manual_seed(self.random_state)
        self._S, self._labels = torch.as_tensor(S, dtype=torch.float32), torch.as_tensor(labels)
        self._model = _gpytorch_process(gpytorch, torch.as_tensor(Z, dtype=torch.float32), n_classes)
        self._likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=n_classes, mixing_weights=False)
        self._objective = gpytorch.mlls.VariationalELBO(self._likelihood, self._model, num_data=len(labels))
        self._adam = torch.optim.Adam(self._model.parameters(), lr=self.learning_rate)
        self.details_ = {}
        return self

    def step(self, rows: Rows = None, times: int = 1) -> StepTime:
        """Steps of Adam on some rows, or on all; choosing them is off the clock."""
        S, labels = (self._S, self._labels) if rows is None else (self._S[rows], self._labels[rows])
        start, processor = time.perf_counter(), time.process_time()
        for _ in range(times):
            self._adam.zero_grad()
            loss = -self._objective(self._model(S), labels)
            loss.backward()
            self._adam.step()
        return StepTime(time.perf_counter() - start, time.process_time() - processor)

    def probabilities(self, S: FloatArray) -> FloatArray:
        """Probabilities of standardised rows, the same 256 draws every time, none of them the training's."""
        import torch

        gpytorch: Any = import_module("gpytorch")
        self._model.eval()
        draws = gpytorch.settings.num_likelihood_samples(_TEST_DRAWS)
        with torch.no_grad(), torch.random.fork_rng(), draws:
            torch.manual_seed(self.random_state)
            rows = torch.as_tensor(S, dtype=torch.float32)
            proba: FloatArray = self._likelihood(self._model(rows)).probs.double().mean(0).numpy()
        self._model.train()
        return proba


def _gpytorch_process(gpytorch: Any, Z: Any, n_classes: int) -> Any:
    """The process; its class can only be made once gpytorch is there."""
    import torch

    class Process(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(
                len(Z), batch_shape=torch.Size([n_classes])
            )
            functions = gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=True)
            together = gpytorch.variational.IndependentMultitaskVariationalStrategy
            super().__init__(together(functions, num_tasks=n_classes))
            self.mean_module = gpytorch.means.ZeroMean()
            rbf = gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1])
            rbf.lengthscale = Z.shape[1] ** 0.5
            self.covar_module = gpytorch.kernels.ScaleKernel(rbf)
            self.covar_module.outputscale = 1.0

        def forward(self, S: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(S), self.covar_module(S))

    return Process()


class GPflowSVGP(_SVGP):
    """GPflow in a process of its own Python: Adam, or natural gradients and Adam, double precision.

    Times leave out the start of the process and the compilation
    (``details_["compile_s"]``).

    Parameters
    ----------
    n_inducing : int
    learning_rate : float
        Of Adam.
    steps : int
    random_state : int
    likelihood : {"robustmax", "softmax"}
    natural_rate : float or None
        Of natural gradients for q; None: Adam moves q too.
    epsilon : float
        Of Adam.
    log_parameters : bool
        Whether Adam moves logarithms of the kernel's parameters.
    """

    warms_itself = True

    def __init__(
        self,
        n_inducing: int = 64,
        learning_rate: float = 0.02,
        steps: int = 500,
        random_state: int = 0,
        likelihood: str = "robustmax",
        natural_rate: float | None = None,
        epsilon: float = 1e-7,
        log_parameters: bool = False,
    ) -> None:
        self.n_inducing = n_inducing
        self.learning_rate = learning_rate
        self.steps = steps
        self.random_state = random_state
        self.likelihood = likelihood
        self.natural_rate = natural_rate
        self.epsilon = epsilon
        self.log_parameters = log_parameters

    def begin(
        self,
        S: FloatArray,
        labels: npt.NDArray[Any],
        Z: FloatArray,
        n_classes: int,
        batch_size: int | None = None,
        start: tuple[FloatArray, FloatArray] | None = None,
    ) -> Self:
        """Start the process and compile; ``start`` are means and covariances of q, else the prior's."""
        python = gpflow_python()
        if python is None:
            raise ImportError(_NO_GPFLOW)
        self._folder = tempfile.TemporaryDirectory(prefix="bayesvm-gpflow-")
        rows = Path(self._folder.name) / "rows.npz"
        arrays: dict[str, Any] = {"S": S, "labels": labels, "Z": Z}
        if start is not None:
            arrays |= {"m": start[0], "cov": start[1]}
        np.savez(rows, **arrays)
        names = ("likelihood", "learning_rate", "epsilon", "natural_rate", "log_parameters")
        options = {name: getattr(self, name) for name in names}
        options |= {"n_classes": n_classes, "batch_size": batch_size}
        self._process = subprocess.Popen(
            [python, str(_SCRIPT), str(rows), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **_ONE_THREAD},
        )
        self.details_ = {"compile_s": self._answer()["compile_s"]}
        return self

    def step(self, rows: Rows = None, times: int = 1) -> StepTime:
        """Steps on some rows, or on all."""
        self._ask({"rows": None if rows is None else rows.tolist(), "steps": times})
        return StepTime(**self._answer())

    def probabilities(self, S: FloatArray) -> FloatArray:
        """Probabilities of standardised rows."""
        rows = Path(self._folder.name) / "test.npy"
        np.save(rows, S)
        self._ask({"predict": str(rows)})
        answer = self._answer()
        self.predict_seconds_, self.peak_mb_ = float(answer["predict_s"]), float(answer["peak_mb"])
        return np.load(answer["proba"])

    def _ask(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        """The next line that the script writes, or its error."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, said = self._process.communicate()
            raise RuntimeError(f"GPflow: {(said.strip().splitlines() or ['it ended without a word'])[-1]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"GPflow: {answer['error']}")
        return answer

    def __del__(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None:
            process.kill()
            process.communicate()


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
        raise ImportError(_NO_GPFLOW)
    try:
        answer = subprocess.run([python, "-c", program], capture_output=True, text=True)
    except OSError as error:
        raise ImportError(f"{PYTHON_VARIABLE} names no Python: {error}; make peers-env makes one") from error
    if answer.returncode:
        raise ImportError(f"{python} has no GPflow: {answer.stderr.strip().splitlines()[-1]}")
    versions: dict[str, str] = json.loads(answer.stdout)
    return versions
