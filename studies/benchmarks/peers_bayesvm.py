"""Worker of peers.py: BayesianSVC, watched at every step of its fit.

A callback gets at every step the estimator that a fit stopped there would
have left: calibrated, ready to predict. Its time is the training until then
plus what it took to build; predicting the test rows, and building the
estimators of earlier steps, are not counted.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from peers_worker import Options, Problem, Recorder, Result, run_worker

from bayesvm import BayesianSVC

__all__ = ["Spectator", "fit"]

torch.set_num_threads(1)


class Spectator:
    """A scikit-learn callback with a clock that stands still while it looks.

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


def fit(problem: Problem, options: Options) -> Result:
    """A curve of test log-loss against seconds, and the seconds of a fit that nobody watched."""
    start = time.perf_counter()
    BayesianSVC(**options).fit(problem.X, problem.y)
    unwatched_s = time.perf_counter() - start
    model = BayesianSVC(**options)
    recorder = Recorder(problem)
    spectator = Spectator(recorder, problem.X_test)
    model.set_callbacks(spectator).fit(problem.X, problem.y)
    spectator.finish(model)
    return {**recorder.result(), "unwatched_s": unwatched_s}


if __name__ == "__main__":
    run_worker(fit)
