"""A thousand classes: a sweep against a step of a softmax SVGP over the same rows."""

from __future__ import annotations

import statistics
import sys
from typing import Any

import torch
from _problems import clusters
from scale_sweep import SweepProblem, timed

from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import Softmax
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.natural_adam import NaturalAdam
from bayesvm._inference.rivals import AllRivals
from bayesvm._inference.task import Settings

__all__ = ["measure"]

N, D, P, C = 100_000, 50, 64, 1000
# Rows of the two steps from which one over all rows is extrapolated: every one of them costs the same.
STEP_ROWS = (128, 512)
Record = dict[str, Any]


def measure(repeats: int) -> tuple[Record, Record]:
    """``classes_1000.speedup``: seconds of a step of the SVGP over those of a sweep.

    The sweep computes kernel values and features too. Steps are those of
    SVGPClassifier (natural gradients for q, Adam for kernel and inducing
    points); a step over all rows at once would need N C P numbers.
    """
    X, y = clusters(N, D, C)
    problem = SweepProblem.of(X, y, P, kernel="rbf", n_classes=C)
    sweep = statistics.median(timed(lambda: problem.sweep(None, 32_768), repeats))
    known = problem.sample
    steps = {}
    for n in STEP_ROWS:
        rows = TrainingRows(
            known.X[:n], known.y[:n], known.weight[:n], known.key[:n], known.kernel, known.params, known.Z, C
        )
        prior = Natural.prior(C, rows.Lz)
        settings = Settings(rate=0.01, natural_rate=0.1, learn_kernel=True, learn_inducing=True)
        with torch.enable_grad():
            walk = NaturalAdam(rows, AllRivals(Softmax()), prior, prior, settings)
            steps[n] = min(timed(lambda walk=walk: walk.step(None), 2))
        print(f"softmax SVGP, {n} rows: {steps[n]:.2f} s", file=sys.stderr, flush=True)
    few, many = STEP_ROWS
    per_row = (steps[many] - steps[few]) / (many - few)
    step = steps[many] + (N - many) * per_row
    details = {
        "rows": N,
        "features": D,
        "inducing": P,
        "classes": C,
        "sweep_s": round(sweep, 4),
        "svgp_step_s": round(step, 2),
        "svgp_steps_measured_s": {str(n): round(s, 4) for n, s in steps.items()},
    }
    return {"classes_1000.speedup": round(step / sweep, 1)}, details
