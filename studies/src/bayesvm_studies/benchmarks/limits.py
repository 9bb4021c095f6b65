"""How far a sweep is from its matrix products, how cost grows, and how much memory a fit needs.

Four figures, each with the bar it must stay under; studies/README.md says how
to read them. All times are medians over repetitions that alternate between
the two things compared, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from bayesvm import BayesianSVC
from bayesvm_studies.benchmarks.common import (
    clusters,
    command_line,
    forget_peak,
    from_child,
    peak_above,
    use_threads,
    write_json,
)
from bayesvm_studies.benchmarks.sweep import Clock, SweepProblem, clocked_products, products

THREADS = 2
BARS = {
    "sweep_over_products": 1.4,
    "classes_10_to_500": 3.0,
    "rows_20k_to_200k": 11.0,
    "peak_gb_1m": 2.0,
}


def problem_of(N: int, P: int, C: int) -> SweepProblem:
    """Clusters in 20 dimensions, ready for a sweep; features are made anew in each."""
    return SweepProblem.of(*clusters(N, 20, C), P, kernel="rbf", n_classes=C)


def alternate(tasks: list[Callable[[], object]], repeats: int) -> list[list[float]]:
    """Seconds of every task in every repetition, tasks in turn, after one warm-up each."""
    seconds: list[list[float]] = [[] for _ in tasks]
    for _ in range(repeats + 1):
        for task, times in zip(tasks, seconds, strict=True):
            start = time.perf_counter()
            task()
            times.append(time.perf_counter() - start)
    return [times[1:] for times in seconds]


def ratio(name: str, numerator: list[float], denominator: list[float]) -> float:
    """Median ratio of neighbouring repetitions; the medians themselves go to standard error."""
    result = statistics.median(a / b for a, b in zip(numerator, denominator, strict=True))
    a, b = (1e3 * statistics.median(times) for times in (numerator, denominator))
    print(f"{name}: {a:.1f} ms over {b:.1f} ms", file=sys.stderr)
    return result


def sweep_over_products(repeats: int) -> float:
    problem = problem_of(20_000, P=256, C=10)
    bare = products(problem, None)
    parts: list[Clock] = []
    sweep, alone = alternate([problem.sweep, lambda: parts.append(clocked_products(bare)[1])], repeats)
    for what in parts[0]:
        mean = statistics.mean(part[what] for part in parts)
        print(f"  {what:<20}{1e3 * mean:8.2f} ms (mean)", file=sys.stderr)
    return ratio("sweep_over_products", sweep, alone)


def growth(name: str, small: SweepProblem, large: SweepProblem, repeats: int) -> float:
    a, b = alternate([large.sweep, small.sweep], repeats)
    return ratio(name, a, b)


def classes_10_to_500(repeats: int) -> float:
    small, large = (problem_of(20_000, P=64, C=C) for C in (10, 500))
    return growth("classes_10_to_500", small, large, repeats)


def rows_20k_to_200k(repeats: int) -> float:
    small, large = (problem_of(N, P=64, C=10) for N in (20_000, 200_000))
    return growth("rows_20k_to_200k", small, large, repeats)


def fit_a_million() -> None:
    """Print the peak memory of a fit above what data and imports already take; runs in a child."""
    use_threads(THREADS)
    warnings.simplefilter("ignore")
    BayesianSVC(n_inducing=64, random_state=0).fit(*clusters(500, 10, 10))
    X, y = clusters(1_000_000, 10, 10)
    before = forget_peak()
    start = time.perf_counter()
    model = BayesianSVC(n_inducing=64, random_state=0).fit(X, y)
    seconds = time.perf_counter() - start
    peak = peak_above(before)
    print(json.dumps({"peak": peak, "seconds": seconds, "sweeps": model.n_iter_, "loo": model.loo_score_}))


def peak_gb_1m(repeats: int) -> float:
    result = from_child("-m", "bayesvm_studies.benchmarks.limits", "--fit-a-million")
    print(f"peak_gb_1m: fit of {result['seconds']:.0f} s, {result['sweeps']} sweeps", file=sys.stderr)
    return result["peak"] / 1e3


MEASURES: dict[str, Callable[[int], float]] = {
    "sweep_over_products": sweep_over_products,
    "classes_10_to_500": classes_10_to_500,
    "rows_20k_to_200k": rows_20k_to_200k,
    "peak_gb_1m": peak_gb_1m,
}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--only", choices=list(BARS), action="append", help="one figure (may be repeated)")
    parser.add_argument("--repeats", type=int, default=15, help="timed repetitions (default: %(default)s)")
    parser.add_argument("--fit-a-million", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit_a_million:
        fit_a_million()
        return
    use_threads(THREADS)
    figures: dict[str, Any] = {}
    with torch.no_grad():
        for name in arguments.only or BARS:
            figures[name] = round(MEASURES[name](arguments.repeats), 3)
    print(f"\n{'figure':<22}{'measured':>10}{'bar':>8}   verdict ({THREADS} threads)")
    for name, figure in figures.items():
        verdict = "ok" if figure <= BARS[name] else "ABOVE THE BAR"
        print(f"{name:<22}{figure:>10.2f}{BARS[name]:>8.1f}   {verdict}")
    write_json(arguments.json, figures, threads=THREADS, repeats=arguments.repeats, bars=BARS)


if __name__ == "__main__":
    main()
