"""What the workers of peers.py share: the problem, the clock, scores and the way to hand results back.

A worker is a script that runs one model on one problem in a process of its
own. It may run in another environment than bayesvm's, so nothing here
imports bayesvm or torch.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

__all__ = ["Options", "Problem", "Recorder", "Result", "batches", "run_worker", "train"]

Options = dict[str, Any]
Result = dict[str, Any]


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


def _warm_up_problem() -> Problem:
    """Thirty irises: enough to import and compile all that a first fit needs."""
    X, y = load_iris(return_X_y=True)
    S = StandardScaler().fit_transform(X)
    some, rest = slice(0, None, 5), slice(1, None, 5)
    return Problem(X[some], y[some], X[rest], y[rest], S[some], S[rest], S[2::15], 3)


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
        # Quadrature leaves rows that sum to 1.0002; log_loss wants them exact.
        proba = proba / proba.sum(1, keepdims=True)
        self.seconds.append(seconds)
        self.log_loss.append(float(log_loss(y, proba, labels=labels)))
        self.accuracy.append(float((proba.argmax(1) == y).mean()))

    def result(self) -> Result:
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
    draw: Callable[[], Any],
    step: Callable[[Any], object],
    predict: Callable[[], np.ndarray],
) -> Result:
    """Steps on the clock; drawing batches and predicting the test rows off it.

    A step that fails ends the run, and what was reached until then counts.
    """
    recorder, seconds, processor = Recorder(problem), 0.0, 0.0
    stopped = None
    for _ in range(steps):
        batch = draw()
        start, processor_start = time.perf_counter(), time.process_time()
        try:
            step(batch)
        except Exception as error:  # a failed factorisation ends a run, as it would a user's
            stopped = f"step {len(recorder.seconds) + 1}: {type(error).__name__}: {error}"[:300]
            break
        seconds += time.perf_counter() - start
        processor += time.process_time() - processor_start
        recorder.add(seconds, predict())
    if not recorder.seconds:
        raise RuntimeError(stopped)
    return {**recorder.result(), "processor_s": processor, **({"stopped": stopped} if stopped else {})}


def _median_run(runs: list[Result]) -> Result:
    """The first run with the median of every time; runs differ in nothing else."""
    points = [statistics.median(s) for s in zip(*(run["seconds"] for run in runs), strict=True)]
    whole = {key: statistics.median(run[key] for run in runs) for key in runs[0] if key.endswith("_s")}
    return {**runs[0], **whole, "seconds": points}


def _compact(result: Result) -> Result:
    """Five significant digits are more than a clock has."""

    def rounded(value: Any) -> Any:
        if isinstance(value, list):
            return [rounded(x) for x in value]
        return float(f"{value:.5g}") if isinstance(value, float) else value

    return {key: rounded(value) for key, value in result.items()}


def run_worker(run: Callable[[Problem, Options], Result]) -> None:
    """Run a worker script: ``worker.py PROBLEM.npz RESULT.json OPTIONS`` with options as JSON.

    A small problem comes first, so that imports and first uses are off the
    clock. Every error ends up in the result file.
    """
    problem_file, result_file, options_json = sys.argv[1:]
    options = json.loads(options_json)
    repeats = options.pop("repeats", 1)
    warnings.simplefilter("ignore")
    try:
        run(_warm_up_problem(), {**options, **({"steps": 2} if "steps" in options else {})})
        problem = Problem.load(problem_file)
        result = _compact(_median_run([run(problem, options) for _ in range(repeats)]))
    except Exception as error:
        traceback.print_exc()
        result = {"error": f"{type(error).__name__}: {error}"[:500]}
    Path(result_file).write_text(json.dumps(result))
