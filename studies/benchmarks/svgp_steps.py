"""What the two workers of svgp.py share: steps on the clock, and what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from peers_worker import Options, Problem, Recorder, Result, batches

__all__ = ["scored", "start_of", "take_steps"]


def start_of(problem: Problem, options: Options) -> tuple[np.ndarray, np.ndarray] | None:
    """Means (C, P) and covariances (C, P, P) of the whitened q to start from; None: the prior."""
    with np.load(options["start"]) as arrays:
        m, S = arrays["m"], arrays["S"]
    # The small problem that warms a worker up is another one.
    return (m, S) if m.shape == (problem.n_classes, len(problem.Z)) else None


def take_steps(
    problem: Problem,
    options: Options,
    draw: Callable[[np.ndarray | None], Any],
    step: Callable[[Any], object],
    predict: Callable[[], np.ndarray],
) -> Result:
    """Seconds of every step, and test scores after the last; drawing and predicting are off the clock."""
    rows = batches(problem, options.get("batch_size"))
    seconds = []
    for _ in range(options["steps"]):
        batch = draw(rows())
        start = time.perf_counter()
        step(batch)
        seconds.append(time.perf_counter() - start)
    return scored(problem, seconds, predict())


def scored(problem: Problem, seconds: list[float], proba: np.ndarray) -> Result:
    """Seconds of every step with the test scores of what they came to."""
    recorder = Recorder(problem)
    recorder.add(sum(seconds), proba)
    return {"seconds": seconds, "log_loss": recorder.log_loss[0], "accuracy": recorder.accuracy[0]}
