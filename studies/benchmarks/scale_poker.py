"""Poker at full size: a sweep against its products, and a whole fit in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import warnings
from typing import Any

import torch
from _memory import forget_peak, peak_above
from _problems import clusters
from scale_sweep import SweepProblem, load_poker, products, stages

__all__ = ["fit", "sweep"]

P = 64
# Rows of a chunk of the library's.
CHUNK_ROWS = 32_768
Record = dict[str, Any]


def sweep(data: str | None, repeats: int, rows: int | None = None) -> tuple[Record, Record]:
    """``poker.sweep_over_products``: as a fit does it, features being kept; and from kernel values on."""
    X, y, note = load_poker(data)
    X, y = X[:rows], y[:rows]
    problem = SweepProblem.of(X, y, P, n_classes=10)
    details: Record = {"data": note, "rows": len(y), "inducing": P}
    figures: Record = {}
    for name, kept in (("kept", True), ("anew", False)):
        blocks = problem.features(CHUNK_ROWS) if kept else None
        bare = products(problem, blocks, CHUNK_ROWS)
        seconds: dict[str, list[float]] = {"sweep": [], "products": []}
        per_product: dict[str, float] = {}
        problem.sweep(blocks, CHUNK_ROWS)
        for _ in range(repeats):
            start = time.perf_counter()
            problem.sweep(blocks, CHUNK_ROWS)
            seconds["sweep"].append(time.perf_counter() - start)
            total = 0.0
            for what, product in bare:
                start = time.perf_counter()
                product()
                taken = time.perf_counter() - start
                total += taken
                per_product[what] = per_product.get(what, 0.0) + taken / repeats
            seconds["products"].append(total)
        ratio = statistics.median(a / b for a, b in zip(seconds["sweep"], seconds["products"], strict=True))
        parts: dict[str, float] = {}
        with stages("cpu", parts):
            problem.sweep(blocks, CHUNK_ROWS)
        details[name] = {
            "ratio": round(ratio, 3),
            "sweep_s": round(statistics.median(seconds["sweep"]), 4),
            "products_s": round(statistics.median(seconds["products"]), 4),
            "stages_s": {k: round(v, 4) for k, v in parts.items()},
            "products": {k: round(v, 4) for k, v in per_product.items()},
        }
        print(f"poker sweep, features {name}: {details[name]}", file=sys.stderr, flush=True)
        del blocks, bare
    figures["poker.sweep_over_products"] = details["kept"]["ratio"]
    return figures, details


def fit_in_this_process(data: str | None, threads: int) -> None:
    """Print seconds and peak memory of a fit, above what data and imports already take."""
    from bayesvm import BayesianSVC

    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    BayesianSVC(n_inducing=P, random_state=0).fit(*clusters(500, 10, 10))  # imports what is imported late
    X, y, note = load_poker(data)
    before = forget_peak()
    start = time.perf_counter()
    model = BayesianSVC(n_inducing=P, random_state=0).fit(X, y)
    seconds = time.perf_counter() - start
    peak = peak_above(before)
    rows = slice(0, 20_000)
    record = {
        "fit_s": round(seconds, 2),
        "peak_gb": round(peak / 1e9, 3),
        "sweeps": int(model.n_iter_),
        "converged": bool(model.converged_),
        "loo_score": model.loo_score_,
        "loo_log_loss": model.loo_log_loss_,
        "train_accuracy": float((model.predict(X[rows]) == y[rows]).mean()),
        "data": note,
    }
    print(json.dumps(record))


def fit(script: str, data: str | None, repeats: int) -> tuple[Record, Record]:
    """``poker.fit_seconds`` and ``poker.peak_gb``."""
    child = [sys.executable, script, "--fit-poker", *(["--data", data] if data else [])]
    done = subprocess.run(child, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    record = json.loads(done.stdout.splitlines()[-1])
    return {"poker.fit_seconds": record["fit_s"], "poker.peak_gb": record["peak_gb"]}, record
