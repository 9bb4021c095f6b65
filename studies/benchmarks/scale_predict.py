"""How long one prediction takes, and how many a second come in batches."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _problems import clusters

from bayesvm import BayesianSVC

__all__ = ["measure"]

N, D, P, C = 5000, 20, 128, 10
CALLS, WARM = 1000, 100
BATCH_ROWS = 200_000
Record = dict[str, Any]


def _median_ms(call: Callable[[np.ndarray], object], X: np.ndarray) -> float:
    """Median over single rows, all different."""
    seconds = []
    for i in range(CALLS + WARM):
        row = X[i : i + 1]
        start = time.perf_counter()
        call(row)
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds[WARM:])


def measure(repeats: int) -> tuple[Record, Record]:
    """``predict.one_row_ms``, ``predict.one_row_compiled_ms`` and ``predict.rows_per_second``."""
    X, y = clusters(N + BATCH_ROWS, D, C)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianSVC(n_inducing=P, local=False, random_state=0).fit(X[:N], y[:N])
    new = X[N:]
    compiled = model.compile_predictor(dtype="float32")
    one = _median_ms(model.predict_proba, new)
    one_compiled = _median_ms(compiled.predict_proba, new)
    compiled.predict_proba(new)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        proba = compiled.predict_proba(new)
        seconds.append(time.perf_counter() - start)
    exact = model.predict_proba(new[:50_000])
    details: Record = {
        "inducing": P,
        "classes": C,
        "features": D,
        "batch_rows": BATCH_ROWS,
        "float32_max_difference": float(np.abs(proba[:50_000] - exact).max()),
        "estimator_rows_per_second": None,
    }
    start = time.perf_counter()
    model.predict_proba(new[:50_000])
    details["estimator_rows_per_second"] = round(50_000 / (time.perf_counter() - start))
    if hasattr(compiled, "predict_one"):
        details["predict_one_ms"] = round(_median_ms(lambda row: compiled.predict_one(row[0]), new), 4)
    figures = {
        "predict.one_row_ms": round(one, 4),
        "predict.one_row_compiled_ms": round(one_compiled, 4),
        "predict.rows_per_second": round(BATCH_ROWS / statistics.median(seconds)),
    }
    return figures, details
