"""A cost model of a sweep: constants fitted to measured sweeps, checked on one it was not fitted to.

docs/scale.md derives the terms. A sweep over N rows on w machines takes

    N / w (c0 + c1 P + c2 D P + c3 P^2 + c4 P C) + C (c5 P^2 + c6 P^3) + messages.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from bayesvm_studies.benchmarks.common import Record, clusters, timed
from bayesvm_studies.benchmarks.sweep import SweepProblem

TERMS = ("row", "row P", "row D P", "row P^2", "row P C", "class P^2", "class P^3")
# N, D, P and C of the sweeps that are measured, and of the one that is predicted before.
GRID = (
    (40_000, 20, 64, 10),
    (80_000, 20, 64, 10),
    (40_000, 20, 32, 10),
    (40_000, 20, 128, 10),
    (20_000, 20, 256, 10),
    (40_000, 100, 64, 10),
    (40_000, 20, 64, 200),
    (40_000, 20, 64, 1000),
    (40_000, 20, 128, 200),
    (20_000, 20, 32, 1000),
)
CHECK = (60_000, 40, 96, 60)
# What lies ahead: rows, features, inducing points, classes, machines.
AHEAD = (
    (10**9, 50, 64, 10, 1),
    (10**9, 50, 64, 10, 100),
    (10**9, 50, 64, 1000, 100),
    (10**7, 50, 64, 10**5, 1),
    (10**9, 50, 32, 10**5, 100),
)
# A network between machines; those of one rack are better than this.
NETWORK = {"latency_s": 5e-4, "bytes_per_s": 1.25e9}


class Size(NamedTuple):
    """Rows, features, inducing points, classes, and machines that share the rows."""

    N: int
    D: int
    P: int
    C: int
    workers: int = 1


def flops(s: Size) -> float:
    """Multiplications and additions of one sweep over all machines, kernel values made anew."""
    per_row = 2 * s.D * s.P + s.P**2 + 2 * s.P * s.C + 8 * s.P**2 + 8 * s.P
    # Factor, inverse, draws (32) and mean of each class.
    return s.N * per_row + s.C * (2 * s.P**3 / 3 + 34 * s.P**2)


def bytes_read(s: Size) -> float:
    """Bytes of rows that all machines read in one sweep, labels, weights and keys included."""
    return 8.0 * s.N * (s.D + 3)


def posterior_bytes(s: Size) -> float:
    """Bytes of q, and of the sums that make the next one."""
    return 8.0 * s.C * (s.P**2 + s.P)


def messages(s: Size) -> Record:
    """What goes between machines in one sweep: q to each of them, sums back along a tree."""
    return {
        "messages": 2 * (s.workers - 1),
        "bytes": 2 * (s.workers - 1) * posterior_bytes(s),
        "rounds": 2 * math.ceil(math.log2(s.workers)) if s.workers > 1 else 0,
    }


def _terms(s: Size) -> list[float]:
    rows = s.N / s.workers
    of_rows = [rows, rows * s.P, rows * s.D * s.P, rows * s.P**2, rows * s.P * s.C]
    return [*of_rows, s.C * s.P**2, float(s.C * s.P**3)]


def fitted(sizes: Sequence[Size], seconds: Sequence[float]) -> dict[str, float]:
    """Constants, none of them negative, with the least sum of squared relative errors."""
    A = np.array([_terms(s) for s in sizes]) / np.asarray(seconds)[:, None]
    scale = A.max(0)
    found, _ = nnls(A / scale, np.ones(len(seconds)))
    return dict(zip(TERMS, (found / scale).tolist(), strict=True))


def predicted(constants: dict[str, float], s: Size) -> float:
    """Seconds of one sweep on machines with these constants, the network included."""
    compute = sum(c * t for c, t in zip(constants.values(), _terms(s), strict=True))
    rounds = messages(s)["rounds"]
    return compute + rounds * (NETWORK["latency_s"] + posterior_bytes(s) / NETWORK["bytes_per_s"])


def summary(runs: list[Record]) -> Record:
    """Constants from the runs that are not the check, and how well they predict that one."""
    sizes = [Size(r["N"], r["D"], r["P"], r["C"]) for r in runs]
    known = [(s, r["s"]) for s, r in zip(sizes, runs, strict=True) if not r["check"]]
    constants = fitted(*zip(*known, strict=True))
    errors = [predicted(constants, s) / seconds - 1.0 for s, seconds in known]
    checks = [
        {**s._asdict(), "measured_s": r["s"], "predicted_s": predicted(constants, s)}
        for s, r in zip(sizes, runs, strict=True)
        if r["check"]
    ]
    for check in checks:
        check["error"] = round(check["predicted_s"] / check["measured_s"] - 1.0, 3)
    ahead = [
        {
            **Size(*a)._asdict(),
            "sweep_s": float(f"{predicted(constants, Size(*a)):.4g}"),
            "flops": flops(Size(*a)),
            "bytes_read": bytes_read(Size(*a)),
            "posterior_gb": round(posterior_bytes(Size(*a)) / 1e9, 3),
            **{f"network_{k}": v for k, v in messages(Size(*a)).items()},
        }
        for a in AHEAD
    ]
    return {
        "constants": constants,
        "largest_error_of_fit": round(max(abs(e) for e in errors), 3),
        "check": checks,
        "ahead": ahead,
        "network": NETWORK,
        "runs": runs,
    }


def run(repeats: int) -> Record:
    """Measure the grid and the check here, fit the constants, look ahead."""
    runs: list[Record] = []
    for size in (*GRID, CHECK):
        N, D, P, C = size
        X, y = clusters(N, D, C)
        problem = SweepProblem.of(X, y, P, kernel="rbf", n_classes=C)
        seconds = statistics.median(timed(problem.sweep, repeats))
        runs.append({"N": N, "D": D, "P": P, "C": C, "s": seconds, "check": size == CHECK})
        print(f"model: {runs[-1]}", file=sys.stderr, flush=True)
    return summary(runs)
