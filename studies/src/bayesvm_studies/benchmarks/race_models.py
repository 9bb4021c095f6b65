"""Models and problems of the race, and how one model runs in a process of its own.

``python -m bayesvm_studies.benchmarks.race_models KIND PROBLEM.npz RESULT.json OPTIONS``
runs one, options as JSON. The clock runs while a model trains and at no other time.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesvm import BayesianSVC
from bayesvm_studies.benchmarks import quality
from bayesvm_studies.benchmarks.common import Record, source_version, use_threads
from bayesvm_studies.benchmarks.comparison import load_split
from bayesvm_studies.competitors import svgp
from bayesvm_studies.competitors.svgp import GPflowSVGP, GPyTorchSVGP, StepTime, gpflow_versions
from bayesvm_studies.worker import thread_environment

__all__ = [
    "CONTESTANTS",
    "Contestant",
    "DIGITS",
    "OURS",
    "PEERS",
    "Problem",
    "Recorder",
    "SETS",
    "SPLIT",
    "batches",
    "digest",
    "in_process",
    "load_problem",
    "make_problem",
    "run",
    "run_one",
    "train",
    "version",
    "with_option",
]

DIGITS = "digits"
OURS = "bayesvm"
# Chosen by shape alone, before anything was raced on them; studies/README.md gives the rule.
SETS = (
    "hayes_roth",
    "flags",
    "vehicle",
    "analcatdata_dmft",
    "soybean",
    "car",
    "solar_flare_2",
    "splice",
    "wine_quality_white",
    "mfeat_zernike",
)
# The first split on which no default was chosen (0, 1, 2) and which judges nothing else (42).
SPLIT = 3
SEED = 0
N_INDUCING = 64


# --- problems -------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """One split of one data set; labels are 0 ... n_classes - 1.

    ``X`` are the rows as they came, ``S`` the same standardised, ``Z`` the
    inducing points among the standardised rows.
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    S: np.ndarray
    S_test: np.ndarray
    Z: np.ndarray
    n_classes: int

    @classmethod
    def load(cls, path: str | Path) -> Problem:
        """Read what ``save`` wrote."""
        with np.load(path) as arrays:
            return cls(
                **{name: arrays[name] for name in cls._fields[:-1]}, n_classes=int(arrays["n_classes"])
            )

    def save(self, path: str | Path) -> None:
        """Write all arrays to an ``.npz`` file."""
        np.savez(path, **self._asdict())


def load_problem(folder: Path | None, name: str) -> Problem:
    """Digits, 70/30; or a set of PMLB from ``folder``, a quarter for testing."""
    if name == DIGITS:
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
        return make_problem(X, y, X_test, y_test)
    assert folder is not None
    split = load_split(folder, name, SPLIT)
    y, y_test = (np.searchsorted(split.classes, labels) for labels in (split.y, split.y_test))
    return make_problem(split.X, y, split.X_test, y_test)


def make_problem(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Problem:
    """Add the standardised rows and the k-means centres that BayesianSVC itself uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is not to converge
        quick = BayesianSVC(
            n_inducing=N_INDUCING, random_state=SEED, hyperparameters="fixed", max_iter=1, local=False
        ).fit(X, y)
    varies = X.max(0) > X.min(0)
    scaler = StandardScaler().fit(X[:, varies])
    S, S_test, Z = (scaler.transform(rows[:, varies]) for rows in (X, X_test, quick.inducing_points_))
    n_classes = int(max(y.max(), y_test.max())) + 1
    return Problem(X, y, X_test, y_test, S, S_test, Z, n_classes)


def _warm_up_problem() -> Problem:
    """Thirty irises: enough to import and compile all that a first fit needs."""
    X, y = load_iris(return_X_y=True)
    S = StandardScaler().fit_transform(X)
    some, rest = slice(0, None, 5), slice(1, None, 5)
    return Problem(X[some], y[some], X[rest], y[rest], S[some], S[rest], S[2::15], 3)


def digest(problem: Problem) -> str:
    """Short hash of all numbers of a problem: an old result counts while it stays the same."""
    total = hashlib.sha256()
    for array in problem:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:12]


# --- the clock ------------------------------------------------------------------------------------


class Recorder:
    """Test log-loss and accuracy against seconds of training."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.seconds: list[float] = []
        self.log_loss: list[float] = []
        self.accuracy: list[float] = []

    def add(self, seconds: float, proba: np.ndarray) -> None:
        """Score predictions that could be had after so many seconds."""
        y, labels = self._problem.y_test, np.arange(self._problem.n_classes)
        # Quadrature leaves rows that sum to 1.0002; log_loss requires 1.
        proba = proba / proba.sum(1, keepdims=True)
        self.seconds.append(seconds)
        self.log_loss.append(float(log_loss(y, proba, labels=labels)))
        self.accuracy.append(float((proba.argmax(1) == y).mean()))

    def result(self) -> Record:
        """The curve as plain lists, and the accuracy at its end and at its lowest log-loss."""
        best = int(np.argmin(self.log_loss))
        return {
            "seconds": self.seconds,
            "log_loss": self.log_loss,
            "accuracy": self.accuracy[-1],
            "accuracy_at_best": self.accuracy[best],
        }


def batches(problem: Problem, size: int | None, seed: int = 0) -> Callable[[], np.ndarray | None]:
    """A function that draws rows for the next step, without replacement; None stands for all rows."""
    n_rows = len(problem.y)
    rng = np.random.default_rng(seed)
    if size is None or size >= n_rows:
        return lambda: None
    return lambda: rng.choice(n_rows, size, replace=False)


def train(
    problem: Problem,
    steps: int,
    draw: Callable[[], np.ndarray | None],
    step: Callable[[np.ndarray | None], StepTime],
    predict: Callable[[], np.ndarray],
) -> Record:
    """Steps on the clock; drawing batches and predicting the test rows off it.

    A step that fails ends the run, and what was reached until then counts.
    """
    recorder, seconds, processor = Recorder(problem), 0.0, 0.0
    stopped = None
    for _ in range(steps):
        rows = draw()
        try:
            taken = step(rows)
        except Exception as error:  # a failed factorisation ends a run, as it would a user's
            stopped = f"step {len(recorder.seconds) + 1}: {type(error).__name__}: {error}"[:300]
            break
        seconds += taken.wall_s
        processor += taken.processor_s
        recorder.add(seconds, predict())
    if not recorder.seconds:
        raise RuntimeError(stopped)
    return {**recorder.result(), "processor_s": processor, **({"stopped": stopped} if stopped else {})}


class Spectator:
    """A scikit-learn callback with a clock that stops while it evaluates.

    Training ends where the hook of a step begins and goes on where the
    hook's end returns; in between, scikit-learn has the estimator of this
    step built.
    """

    def __init__(self, recorder: Recorder, X_test: Any) -> None:
        self._recorder = recorder
        self._X_test = X_test
        self._trained = 0.0
        self._paused = self._resumed = time.perf_counter()

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to prepare; the clock runs since this object was made."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to clean up."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Stop the clock at a step; the task that is the whole fit has no parent and changes nothing."""
        if context.parent is not None:
            self._paused = time.perf_counter()
            self._trained += self._paused - self._resumed

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> None:
        """Score the step's estimator and let the clock run on."""
        if context.parent is not None:
            built = time.perf_counter() - self._paused
            if fitted_estimator is not None:
                self._recorder.add(self._trained + built, fitted_estimator.predict_proba(self._X_test))
            self._resumed = time.perf_counter()

    def finish(self, model: BayesianSVC) -> None:
        """Record the completed fit."""
        self._trained += time.perf_counter() - self._resumed
        self._recorder.add(self._trained, model.predict_proba(self._X_test))


# --- models ---------------------------------------------------------------------------------------


def fit_bayesvm(problem: Problem, options: Record) -> Record:
    """A curve, and the seconds of a fit without callbacks.

    A callback gets at every step the estimator that a fit stopped there would
    have left: calibrated, ready to predict. Its time is the training until
    then plus what it took to build.
    """
    start = time.perf_counter()
    BayesianSVC(**options).fit(problem.X, problem.y)
    unwatched_s = time.perf_counter() - start
    model = BayesianSVC(**options)
    recorder = Recorder(problem)
    spectator = Spectator(recorder, problem.X_test)
    model.set_callbacks(spectator).fit(problem.X, problem.y)
    spectator.finish(model)
    return {**recorder.result(), "unwatched_s": unwatched_s}


def fit_svgp(model: GPflowSVGP | GPyTorchSVGP, problem: Problem, options: Record) -> Record:
    """A curve, and the seconds of compilation where there is one."""
    batch_size = options.get("batch_size")
    model.begin(problem.S, problem.y, problem.Z, problem.n_classes, batch_size=batch_size)
    draw = batches(problem, batch_size)
    result = train(problem, options["steps"], draw, model.step, lambda: model.probabilities(problem.S_test))
    return {**result, **model.details_}


def fit_classifier(problem: Problem, options: Record) -> Record:
    """A curve of one point."""
    name = options["classifier"]
    if name == "gpc":  # one length scale: with ARD its gradients would cost as much again per feature
        kernel = ConstantKernel() * RBF(problem.X.shape[1] ** 0.5)
        model = make_pipeline(StandardScaler(), GaussianProcessClassifier(kernel, random_state=0))
    elif name == "svc":
        model = CalibratedClassifierCV(make_pipeline(StandardScaler(), SVC()))
    else:
        model = quality.MODELS[name]()
    recorder = Recorder(problem)
    start = time.perf_counter()
    model.fit(problem.X, problem.y)
    seconds = time.perf_counter() - start
    recorder.add(seconds, model.predict_proba(problem.X_test))
    return recorder.result()


Fit = Callable[[Problem, Record], Record]
FITS: dict[str, Fit] = {
    "bayesvm": fit_bayesvm,
    "gpflow": lambda p, o: fit_svgp(GPflowSVGP(learning_rate=o["learning_rate"]), p, o),
    "gpytorch": lambda p, o: fit_svgp(GPyTorchSVGP(learning_rate=o["learning_rate"]), p, o),
    "classifier": fit_classifier,
}


# --- contestants ----------------------------------------------------------------------------------

STEPS = 500
# Best on digits among .01 to .8, on all rows and on minibatches; studies/README.md has the table.
GPYTORCH_RATE, GPYTORCH_MINIBATCH_RATE = 0.4, 0.2
GPFLOW_RATE = 0.02
BATCH_SIZE = 256


@dataclass(frozen=True)
class Contestant:
    """One model with its settings.

    Attributes
    ----------
    label : str
        Its name in tables and figures.
    kind : str
        One of ``FITS``.
    options : dict
        For that function; ``repeats`` is how often it runs, for the median
        of its times.
    packages : tuple of str
        Whose versions an old result depends on.
    max_rows : int or None
        Training rows beyond which it is not even tried.
    limit_s : float
        Seconds after which it is stopped.
    """

    label: str
    kind: str
    options: Record
    packages: tuple[str, ...] = ("scikit-learn",)
    max_rows: int | None = None
    limit_s: float = 1800.0


def _gpflow(label: str, **options: Any) -> Contestant:
    options = {"learning_rate": GPFLOW_RATE, "steps": STEPS, **options}
    return Contestant(label, "gpflow", options, ("gpflow", "tensorflow"))


def _gpytorch(label: str, **options: Any) -> Contestant:
    options = {"learning_rate": GPYTORCH_RATE, "steps": STEPS, **options}
    return Contestant(label, "gpytorch", options, ("gpytorch", "torch"))


def _sklearn(label: str, classifier: str, repeats: int = 3, **limits: Any) -> Contestant:
    return Contestant(label, "classifier", {"classifier": classifier, "repeats": repeats}, **limits)


CONTESTANTS: dict[str, Contestant] = {
    "gpflow": _gpflow("GPflow SVGP"),
    "gpflow_minibatch": _gpflow("GPflow SVGP, minibatches", batch_size=BATCH_SIZE),
    "gpytorch": _gpytorch("GPyTorch SVGP"),
    "gpytorch_minibatch": _gpytorch(
        "GPyTorch SVGP, minibatches", learning_rate=GPYTORCH_MINIBATCH_RATE, batch_size=BATCH_SIZE
    ),
    OURS: Contestant(
        "BayesianSVC",
        "bayesvm",
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
    """The same contestant with another option."""
    return replace(contestant, options={**contestant.options, name: value})


def version(contestant: Contestant) -> str:
    """What must be unchanged for an old result to count: packages and the code that runs them."""
    parts = []
    try:
        known = gpflow_versions() if contestant.kind == "gpflow" else {"bayesvm": source_version()}
        for package in contestant.packages:
            parts.append(f"{package} {known.get(package) or importlib.metadata.version(package)}")
    except (ImportError, importlib.metadata.PackageNotFoundError) as error:
        raise RuntimeError(f"not installed: {error}; install it with `make peers-env`") from None
    files = [Path(__file__)]
    if contestant.kind in ("gpflow", "gpytorch"):
        files += sorted(Path(svgp.__file__).parent.glob("*.py"))
    code = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    return ", ".join([*parts, f"code {code.hexdigest()[:8]}"])


def run(kind: str, options: Record, problem_file: Path, limit_s: float = 1800.0) -> Record:
    """What a model came to in a process of its own, or a ``note`` or an ``error``."""
    return in_process(
        ["-m", "bayesvm_studies.benchmarks.race_models", kind, str(problem_file)], options, limit_s
    )


def in_process(command: list[str], options: Record, limit_s: float) -> Record:
    """What another Python with one thread writes to a file, or why it did not."""
    with tempfile.TemporaryDirectory() as folder:
        result_file = Path(folder) / "result.json"
        start = time.perf_counter()
        try:
            done = subprocess.run(
                [sys.executable, *command, str(result_file), json.dumps(options)],
                env={**os.environ, **thread_environment(), "CUDA_VISIBLE_DEVICES": ""},
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"note": f"stopped after {limit_s:g} s", "process_s": limit_s}
        process_s = round(time.perf_counter() - start, 2)
        if not result_file.exists():
            return {"error": f"the process died with status {done.returncode}: {done.stderr[-400:]}"}
        return {**json.loads(result_file.read_text()), "process_s": process_s}


# --- the process of one model ---------------------------------------------------------------------


def _median_run(runs: list[Record]) -> Record:
    """The first run with the median of every time; runs differ in nothing else."""
    points = [statistics.median(s) for s in zip(*(run["seconds"] for run in runs), strict=True)]
    whole = {key: statistics.median(run[key] for run in runs) for key in runs[0] if key.endswith("_s")}
    return {**runs[0], **whole, "seconds": points}


def _compact(result: Record) -> Record:
    """Five significant digits are more than a clock has."""

    def rounded(value: Any) -> Any:
        if isinstance(value, list):
            return [rounded(x) for x in value]
        return float(f"{value:.5g}") if isinstance(value, float) else value

    return {key: rounded(value) for key, value in result.items()}


def run_one(fit: Fit, problem_file: str, result_file: str, options_json: str, *, warm: bool = True) -> None:
    """Fit one model to one problem and write what came of it; every error ends up in the file too.

    A small problem comes first, so that imports and first uses are off the clock. GPflow does without:
    its process compiles before the clock runs.
    """
    options = json.loads(options_json)
    repeats = options.pop("repeats", 1)
    warnings.simplefilter("ignore")
    try:
        if warm:
            fit(_warm_up_problem(), {**options, **({"steps": 2} if "steps" in options else {})})
        problem = Problem.load(problem_file)
        result = _compact(_median_run([fit(problem, options) for _ in range(repeats)]))
    except Exception as error:
        traceback.print_exc()
        result = {"error": f"{type(error).__name__}: {error}"[:500]}
    Path(result_file).write_text(json.dumps(result))


if __name__ == "__main__":
    use_threads(1)
    kind, *rest = sys.argv[1:]
    run_one(FITS[kind], *rest, warm=kind != "gpflow")
