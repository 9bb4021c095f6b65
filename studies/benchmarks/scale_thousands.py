"""Ten thousand classes: a default fit in a process of its own, predictions with all of them and with a few.

    python studies/benchmarks/scale_thousands.py [--classes 10000]

prints what ``scale.py --only thousands`` keeps.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from _memory import forget_peak, peak_above

__all__ = ["measure"]

Record = dict[str, Any]
D = 20
ROWS_PER_CLASS = 5
NEW_ROWS = 500
SPREAD = 1.6


def measure(n_classes: int = 10_000) -> tuple[Record, Record]:
    """No figure with a bar: seconds, peak memory and accuracy."""
    done = subprocess.run(
        [sys.executable, __file__, "--classes", str(n_classes)], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    record: Record = json.loads(done.stdout.splitlines()[-1])
    return {}, record


def rows(n_classes: int, per_class: int, seed: int, spread: float = SPREAD) -> tuple[np.ndarray, np.ndarray]:
    """Rows around one centre per class, the same centres whatever the seed."""
    centres = spread * np.random.default_rng(0).standard_normal((n_classes, D))
    y = np.repeat(np.arange(n_classes), per_class)
    rng = np.random.default_rng(seed)
    return centres[y] + rng.standard_normal((len(y), D)), y


def in_this_process(n_classes: int) -> Record:
    """Fit, predict, and what both take."""
    from bayesvm import BayesianSVC

    warnings.simplefilter("ignore")
    BayesianSVC(random_state=0).fit(*rows(50, 10, 1))  # imports what is imported late
    X, y = rows(n_classes, ROWS_PER_CLASS, 1)
    before = forget_peak()
    start = time.perf_counter()
    model = BayesianSVC(random_state=0).fit(X, y)
    found: Record = {
        "classes": n_classes,
        "rows": len(y),
        "features": D,
        "inducing": len(model.inducing_points_),
        "fit_s": round(time.perf_counter() - start, 1),
        "peak_gb": round(peak_above(before) / 1e9, 2),
        "sweeps": int(model.n_iter_),
        "converged": bool(model.converged_),
        "loo_score": model.loo_score_,
        "loo_log_loss": model.loo_log_loss_,
    }
    X_new, y_new = rows(n_classes, 1, 2)
    some = np.random.default_rng(3).permutation(n_classes)[:NEW_ROWS]
    X_new, y_new = X_new[some], y_new[some]
    start = time.perf_counter()
    proba = model.predict_proba(X_new)
    found["predict"] = {
        "rows": len(y_new),
        "proba_s": round(time.perf_counter() - start, 3),
        "accuracy": float((model.classes_[proba.argmax(1)] == y_new).mean()),
        "log_loss": float(-np.log(proba[np.arange(len(y_new)), y_new]).mean()),
        "mean_confidence": float(proba.max(1).mean()),
    }
    for most in (1e-3, 1e-1):
        start = time.perf_counter()
        top = model.predict_top_k(X_new, 5, max_left_out=most)
        seconds = time.perf_counter() - start
        whole = np.take_along_axis(proba, np.searchsorted(model.classes_, top.classes), 1)
        found[f"top_5, at most {most:g} left out"] = {
            "s": round(seconds, 3),
            "left_out_max": float(top.left_out.max()),
            "off_max": float(np.abs(whole - top.probabilities).max()),
        }
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, default=10_000)
    print(json.dumps(in_this_process(parser.parse_args().classes)))
