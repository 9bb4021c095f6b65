"""How far a sweep is from its matrix products, how cost grows, and how much memory a fit needs.

Four figures, each with the bar it must stay under; studies/benchmarks/README.md says
how to read them. All times are medians over repetitions that alternate
between the two things compared, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

THREADS = 2
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = str(THREADS)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from _common import environment, write_json  # noqa: E402
from _memory import forget_peak, peak_above  # noqa: E402
from _problems import clusters  # noqa: E402

from bayesvm import BayesianSVC  # noqa: E402
from bayesvm._core import gaussian, linalg  # noqa: E402
from bayesvm._core.elbo import elbo  # noqa: E402
from bayesvm._core.gaussian import Gaussian, Natural  # noqa: E402
from bayesvm._core.kernels import RBF  # noqa: E402
from bayesvm._fit.kernel import choose_inducing  # noqa: E402
from bayesvm._fit.rows import canonical_rows  # noqa: E402
from bayesvm._inference.blocks import TrainingRows  # noqa: E402
from bayesvm._inference.rivals import N_DRAWS, OneRival  # noqa: E402
from bayesvm._inference.task import evaluate  # noqa: E402

BARS = {
    "sweep_over_products": 1.4,
    "classes_10_to_500": 3.0,
    "rows_20k_to_200k": 11.0,
    "peak_gb_1m": 2.0,
}
_RULE = OneRival(sampled=True)
_STEP = 0.5


# --- one sweep ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Rows and a q a few sweeps from its start, ready for one more sweep."""

    rows: TrainingRows
    base: Natural
    prior: Gaussian
    natural: Natural
    q: Gaussian

    @classmethod
    def of(cls, N: int, P: int, C: int, D: int = 20) -> Problem:
        X, y = clusters(N, D, C)
        data = canonical_rows((X - X.mean(0)) / X.std(0), y, np.ones(N), 0)
        X_t, weight = torch.as_tensor(data.X), torch.as_tensor(data.weight)
        kernel = RBF()
        rows = TrainingRows(
            X_t,
            torch.as_tensor(data.y),
            weight,
            torch.as_tensor(data.key),
            kernel,
            kernel.init(X_t),
            choose_inducing(X_t, weight, P),
            C,
        )
        base = Natural.prior(C, rows.Lz)
        natural, q = base.posterior(True)
        for k in range(4):
            natural, q = natural.towards(evaluate(rows, _RULE, q, base, k).target, _STEP).posterior(True)
        return cls(rows, base, gaussian.prior(C, P, rows.Lz), natural, q)

    def sweep(self) -> tuple[float, Gaussian]:
        """Kernel matrix, whitening, rivals, sites, statistics, the bound and the new q."""
        rows = replace(self.rows)  # features and the factor of K_ZZ are made anew
        now = evaluate(rows, _RULE, self.q, self.base, 4)
        bound = elbo(now.value, float(gaussian.kl(self.q, self.prior).sum()))
        return bound, self.natural.towards(now.target, _STEP).posterior(True)[1]


Products = list[tuple[str, Callable[[], object]]]


def unavoidable(problem: Problem) -> Products:
    """The products and triangular solves of one sweep, in the shapes and the order they occur.

    Rows come in the library's blocks and groups: every row in one of the draws,
    every pair (row, class) in the class it touches. Factorisations, kernel
    functions, sorting, gathering and site formulas are left out: they are
    what the sweep may add. Results are dropped at once, as a sweep can do.
    """
    rows, q, Lz = problem.rows, problem.q, problem.rows.Lz
    C, P = q.m.shape
    noise = torch.randn(C, P, N_DRAWS, dtype=q.m.dtype)
    linear = q.m.unsqueeze(-1)
    pairs = evaluate(rows, _RULE, q, problem.base, 4).sites.classes
    assert pairs is not None
    bare = Gaussian(q.m, q.R)
    T = gaussian.roots(bare).T
    products: Products = [
        ("R_j^-T eps", partial(torch.bmm, T, noise)),
        ("R_j^-T", partial(gaussian.roots, bare)),
    ]
    for block in rows.blocks(_RULE.block_rows(q)):
        A = block.features.A
        products += [
            ("Z X^T", partial(torch.mm, rows.Z, rows.X[block.rows].mT)),
            ("L^-1 K_ZX", partial(linalg.solve_lower, Lz, Lz @ A.mT)),
        ]
        products += [("A v_d^T", partial(torch.mm, part, q.m.mT)) for part in A.chunk(N_DRAWS)]
        counts = torch.bincount(pairs[block.rows].reshape(-1), minlength=C).tolist()
        groups = [(j, part) for j, part in enumerate(torch.cat([A, A]).split(counts)) if len(part)]
        for j, A_j in groups:
            products += [
                ("A_j m_j", partial(torch.mv, A_j, q.m[j])),
                ("A_j T_j", partial(torch.mm, A_j, T[j])),
            ]
        for _, A_j in groups:
            products += [
                ("A_j^T W_j A_j", partial(torch.mm, A_j.mT, A_j)),
                ("A_j^T G_j", partial(torch.mv, A_j.mT, A_j.new_ones(len(A_j)))),
            ]
    return [*products, ("R_j^-T R_j^-1 h_j", partial(torch.cholesky_solve, linear, q.R))]


# --- measuring ----------------------------------------------------------------------------------


def alternate(tasks: list[Callable[[], object]], repeats: int) -> list[list[float]]:
    """Seconds of every task in every repetition, tasks in turn, after one warm-up each."""
    for task in tasks:
        task()
    seconds: list[list[float]] = [[] for _ in tasks]
    for _ in range(repeats):
        for task, times in zip(tasks, seconds, strict=True):
            start = time.perf_counter()
            task()
            times.append(time.perf_counter() - start)
    return seconds


def ratio(name: str, numerator: list[float], denominator: list[float]) -> float:
    """Median ratio of neighbouring repetitions; the medians themselves go to standard error."""
    result = statistics.median(a / b for a, b in zip(numerator, denominator, strict=True))
    a, b = (1e3 * statistics.median(times) for times in (numerator, denominator))
    print(f"{name}: {a:.1f} ms over {b:.1f} ms", file=sys.stderr)
    return result


def sweep_over_products(repeats: int) -> float:
    problem = Problem.of(20_000, P=256, C=10)
    products = unavoidable(problem)
    total: dict[str, float] = dict.fromkeys((what for what, _ in products), 0.0)

    def run_products() -> None:
        for what, product in products:
            start = time.perf_counter()
            product()
            total[what] += time.perf_counter() - start

    sweep, bare = alternate([problem.sweep, run_products], repeats)
    for what, seconds in total.items():
        print(f"  {what:<20}{1e3 * seconds / (repeats + 1):8.2f} ms (mean)", file=sys.stderr)
    return ratio("sweep_over_products", sweep, bare)


def growth(name: str, small: Problem, large: Problem, repeats: int) -> float:
    a, b = alternate([large.sweep, small.sweep], repeats)
    return ratio(name, a, b)


def classes_10_to_500(repeats: int) -> float:
    small, large = (Problem.of(20_000, P=64, C=C) for C in (10, 500))
    return growth("classes_10_to_500", small, large, repeats)


def rows_20k_to_200k(repeats: int) -> float:
    small, large = (Problem.of(N, P=64, C=10) for N in (20_000, 200_000))
    return growth("rows_20k_to_200k", small, large, repeats)


def fit_a_million() -> None:
    """Print the peak memory of a fit above what data and imports already take; runs in a child."""
    torch.set_num_threads(THREADS)
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
    child = [sys.executable, __file__, "--fit-a-million"]
    result = json.loads(subprocess.run(child, capture_output=True, text=True, check=True).stdout)
    print(f"peak_gb_1m: fit of {result['seconds']:.0f} s, {result['sweeps']} sweeps", file=sys.stderr)
    return result["peak"] / 1e9


MEASURES: dict[str, Callable[[int], float]] = {
    "sweep_over_products": sweep_over_products,
    "classes_10_to_500": classes_10_to_500,
    "rows_20k_to_200k": rows_20k_to_200k,
    "peak_gb_1m": peak_gb_1m,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(BARS), action="append", help="one figure (may be repeated)")
    parser.add_argument("--repeats", type=int, default=15, help="timed repetitions (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--fit-a-million", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit_a_million:
        fit_a_million()
        return 0
    torch.set_num_threads(THREADS)
    figures: dict[str, Any] = {}
    with torch.no_grad():
        for name in arguments.only or BARS:
            figures[name] = round(MEASURES[name](arguments.repeats), 3)
    print(f"\n{'figure':<22}{'measured':>10}{'bar':>8}   verdict ({THREADS} threads)")
    for name, figure in figures.items():
        verdict = "ok" if figure <= BARS[name] else "ABOVE THE BAR"
        print(f"{name:<22}{figure:>10.2f}{BARS[name]:>8.1f}   {verdict}")
    if arguments.json:
        config = {"threads": THREADS, "repeats": arguments.repeats, "bars": BARS, **environment()}
        write_json(arguments.json, {**figures, "config": config})
    return 0


if __name__ == "__main__":
    sys.exit(main())
