"""Past one machine: sweeps, fits, memory, classes, a cluster and predictions against their bars.

    python -m bayesvm_studies.benchmarks.scale --json FILE [--only NAME] [--data FOLDER]
    python -m bayesvm_studies.benchmarks.scale --json FILE --gpu scale_gpu.json     (from scale_gpu)
    python -m bayesvm_studies.benchmarks.scale --json FILE --model

Figures that are in the file already and were measured with the same code are
kept, unless --again. Times are those of two threads; studies/README.md says
how to read them and docs/scale.md what follows from them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bayesvm import BayesianSVC
from bayesvm_studies.benchmarks import cost_model
from bayesvm_studies.benchmarks.common import (
    Record,
    clusters,
    forget_peak,
    from_child,
    peak_above,
    source_version,
    timed,
    use_threads,
    write_json,
)
from bayesvm_studies.benchmarks.sweep import (
    SweepProblem,
    clocked_products,
    load_poker,
    products,
    softmax_svgp_step,
    stages,
)

THREADS = 2
# Figure: its bar, and whether it must stay below or reach it.
BARS: dict[str, tuple[str, float]] = {
    "poker.sweep_over_products": ("<=", 1.6),
    "poker.fit_seconds": ("<=", 180.0),
    "poker.peak_gb": ("<=", 2.0),
    "gpu.speedup": (">=", 50.0),
    "classes_1000.speedup": (">=", 100.0),
    "dask.time_ratio": ("<=", 1.3),
    "dask.max_difference": ("<=", 1e-6),
    "predict.one_row_ms": ("<=", 1.0),
    "predict.one_row_compiled_ms": ("<=", 0.2),
    "predict.rows_per_second": (">=", 100_000.0),
}
# What is measured together: its figures, and how they are measured, from the options of the command.
Measured = tuple[Record, Record]
POKER_INDUCING = 64
_SELF = ("-m", "bayesvm_studies.benchmarks.scale")


# --- poker at full size ---------------------------------------------------------------------------


def poker_sweep(data: str | None, repeats: int, rows: int | None = None) -> Measured:
    """``poker.sweep_over_products``: as a fit does it, features being kept; and from kernel values on."""
    X, y, note = load_poker(data)
    X, y = X[:rows], y[:rows]
    problem = SweepProblem.of(X, y, POKER_INDUCING, n_classes=10)
    details: Record = {"data": note, "rows": len(y), "inducing": POKER_INDUCING}
    for name, kept in (("kept", True), ("anew", False)):
        blocks = problem.features() if kept else None
        bare = products(problem, blocks)
        problem.sweep(blocks)
        sweeps, clocks = [], []
        for _ in range(repeats):
            sweeps += timed(partial(problem.sweep, blocks), 1, warm=0)
            clocks.append(clocked_products(bare))
        parts: dict[str, float] = {}
        with stages("cpu", parts):
            problem.sweep(blocks)
        details[name] = {
            "ratio": round(statistics.median(a / b for a, (b, _) in zip(sweeps, clocks, strict=True)), 3),
            "sweep_s": round(statistics.median(sweeps), 4),
            "products_s": round(statistics.median(total for total, _ in clocks), 4),
            "stages_s": {k: round(v, 4) for k, v in parts.items()},
            "products": {k: round(statistics.mean(clock[k] for _, clock in clocks), 4) for k in clocks[0][1]},
        }
        print(f"poker sweep, features {name}: {details[name]}", file=sys.stderr, flush=True)
        del blocks, bare
    return {"poker.sweep_over_products": details["kept"]["ratio"]}, details


def poker_fit(data: str | None) -> Measured:
    """``poker.fit_seconds`` and ``poker.peak_gb``, in a process of its own."""
    record = from_child(*_SELF, "--child", "poker", *(["--data", data] if data else []))
    return {"poker.fit_seconds": record["fit_s"], "poker.peak_gb": record["peak_gb"]}, record


def _measured_fit(X: np.ndarray, y: np.ndarray, **settings: Any) -> tuple[BayesianSVC, Record]:
    """A fit, and its seconds and peak memory above what data and imports already take."""
    BayesianSVC(random_state=0, **settings).fit(*clusters(500, 10, 10))  # imports what is imported late
    before = forget_peak()
    start = time.perf_counter()
    model = BayesianSVC(random_state=0, **settings).fit(X, y)
    seconds = time.perf_counter() - start
    return model, {
        "fit_s": round(seconds, 2),
        "peak_gb": round(peak_above(before) / 1e3, 3),
        "sweeps": int(model.n_iter_),
        "converged": bool(model.converged_),
        "loo_score": model.loo_score_,
        "loo_log_loss": model.loo_log_loss_,
    }


def _child_poker(data: str | None) -> Record:
    X, y, note = load_poker(data)
    model, record = _measured_fit(X, y, n_inducing=POKER_INDUCING)
    some = slice(0, 20_000)
    return record | {"train_accuracy": float((model.predict(X[some]) == y[some]).mean()), "data": note}


# --- many classes ---------------------------------------------------------------------------------


def classes_1000(repeats: int) -> Measured:
    """``classes_1000.speedup``: seconds of a step of a softmax SVGP over those of a sweep.

    The sweep computes kernel values and features too. Steps are those of
    SVGPClassifier (natural gradients for q, Adam for kernel and inducing
    points); a step over all rows at once would need N C P numbers, so it is
    extrapolated from two smaller ones: every row costs the same.
    """
    N, D, P, C = 100_000, 50, 64, 1000
    few, many = 128, 512
    problem = SweepProblem.of(*clusters(N, D, C), P, kernel="rbf", n_classes=C)
    sweep = statistics.median(timed(problem.sweep, repeats))
    steps = {n: min(timed(softmax_svgp_step(problem, n), 2)) for n in (few, many)}
    print(f"softmax SVGP, seconds by rows: {steps}", file=sys.stderr, flush=True)
    step = steps[many] + (N - many) * (steps[many] - steps[few]) / (many - few)
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


def few_rows_per_class(
    n_classes: int, per_class: int, seed: int, spread: float = 1.6, D: int = 20
) -> tuple[np.ndarray, np.ndarray]:
    """Rows around one centre per class, the same centres whatever the seed."""
    centres = spread * np.random.default_rng(0).standard_normal((n_classes, D))
    y = np.repeat(np.arange(n_classes), per_class)
    return centres[y] + np.random.default_rng(seed).standard_normal((len(y), D)), y


def thousands(n_classes: int = 10_000) -> Measured:
    """No figure with a bar: a default fit to many classes of five rows in a process of its own."""
    return {}, from_child(*_SELF, "--child", "thousands", "--classes", str(n_classes))


def _child_thousands(n_classes: int) -> Record:
    X, y = few_rows_per_class(n_classes, 5, 1)
    model, record = _measured_fit(X, y)
    found: Record = {
        "classes": n_classes,
        "rows": len(y),
        "features": X.shape[1],
        "inducing": len(model.inducing_points_),
        **record,
    }
    X_new, y_new = few_rows_per_class(n_classes, 1, 2)
    some = np.random.default_rng(3).permutation(n_classes)[:500]
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


# --- a cluster of two -----------------------------------------------------------------------------

WORKERS = 2
DASK_CHUNK_ROWS = 65_536


def dask(data: str | None) -> Measured:
    """``dask.time_ratio`` and ``dask.max_difference``: two worker processes, one with two threads."""
    seconds, found = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("single", "dask"):
            path = str(Path(folder) / f"{kind}.npz")
            child = ("--child", kind, "--save", path, *(["--data", data] if data else []))
            seconds[kind] = from_child(*_SELF, *child)["seconds"]
            with np.load(path) as arrays:
                found[kind] = dict(arrays)
            print(f"{kind}: {seconds[kind]} s", file=sys.stderr, flush=True)
    one, two = found["single"], found["dask"]
    apart = {name: float(np.abs(one[name] - two[name]).max()) for name in ("m", "Z", "proba")}
    apart["R, relative"] = float(np.abs(one["R"] - two["R"]).max() / np.abs(one["R"]).max())
    figures = {
        "dask.time_ratio": round(seconds["dask"] / seconds["single"], 3),
        "dask.max_difference": max(apart.values()),
    }
    details = {"seconds": seconds, "differences": apart, "chunk_rows": DASK_CHUNK_ROWS, "workers": WORKERS}
    return figures, details


def _child_dask(kind: str, data: str | None, path: str) -> Record:
    """Fit poker in one process or on a cluster of two and save what came of it."""
    X, y, _ = load_poker(data)
    if kind == "single":
        # In chunks, as the cluster has them: an array would also get leave-one-out of every row.
        size = DASK_CHUNK_ROWS
        batches = [(X[i : i + size], y[i : i + size]) for i in range(0, len(X), size)]
        start = time.perf_counter()
        model = BayesianSVC(n_inducing=POKER_INDUCING, random_state=0).fit(batches)
        seconds = time.perf_counter() - start
    else:
        import dask.array as da
        from dask.distributed import Client, LocalCluster

        from bayesvm.distributed import DaskBayesianSVC

        cluster = LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
        )
        with cluster, Client(cluster) as client:
            chunks = [da.from_array(a, chunks=(DASK_CHUNK_ROWS, *a.shape[1:])) for a in (X, y)]
            held = client.persist(chunks)  # the data are where they are, as in the other process
            client.run(_ready_worker)
            start = time.perf_counter()
            fitted = DaskBayesianSVC(n_inducing=POKER_INDUCING, random_state=0).fit(*held)
            seconds = time.perf_counter() - start
            model = fitted.to_local()
    posterior = model.model_
    proba = model.predict_proba(X[:10_000])
    np.savez(path, m=posterior.m, Z=posterior.Z, R=posterior.R, proba=proba)
    return {"seconds": round(seconds, 2)}


def _ready_worker() -> None:
    """Import what a fit imports, so that it is not on the clock."""
    from bayesvm.distributed import DaskBayesianSVC  # noqa: F401

    use_threads(1)


# --- predictions ----------------------------------------------------------------------------------


@torch.enable_grad()
def predict(repeats: int) -> Measured:
    """``predict.one_row_ms``, ``predict.one_row_compiled_ms`` and ``predict.rows_per_second``."""
    N, D, P, C, batch_rows = 5000, 20, 128, 10, 200_000
    X, y = clusters(N + batch_rows, D, C)
    model = BayesianSVC(n_inducing=P, local=False, random_state=0).fit(X[:N], y[:N])
    new, some = X[N:], X[N : N + 50_000]
    compiled = model.compile_predictor(dtype="float32")
    seconds = statistics.median(timed(lambda: compiled.predict_proba(new), repeats))
    (whole,) = timed(lambda: model.predict_proba(some), 1, warm=0)
    off = np.abs(compiled.predict_proba(some) - model.predict_proba(some)).max()
    details = {
        "inducing": P,
        "classes": C,
        "features": D,
        "batch_rows": batch_rows,
        "float32_max_difference": float(off),
        "estimator_rows_per_second": round(len(some) / whole),
        "predict_one_ms": round(_median_ms(lambda row: compiled.predict_one(row[0]), new), 4),
    }
    figures = {
        "predict.one_row_ms": round(_median_ms(model.predict_proba, new), 4),
        "predict.one_row_compiled_ms": round(_median_ms(compiled.predict_proba, new), 4),
        "predict.rows_per_second": round(batch_rows / seconds),
    }
    return figures, details


def _median_ms(call: Callable[[np.ndarray], object], X: np.ndarray, calls: int = 1000) -> float:
    """Median over single rows, all different."""
    rows = iter(X[: calls + 100, None])
    return 1e3 * statistics.median(timed(lambda: call(next(rows)), calls, warm=100))


# --- the command ----------------------------------------------------------------------------------

Options = argparse.Namespace
# What is measured together, and the figures that come of it.
PARTS: dict[str, tuple[tuple[str, ...], Callable[[Options], Measured]]] = {
    "sweep": (("poker.sweep_over_products",), lambda o: poker_sweep(o.data, o.repeats, o.rows)),
    "fit": (("poker.fit_seconds", "poker.peak_gb"), lambda o: poker_fit(o.data)),
    "classes": (("classes_1000.speedup",), lambda o: classes_1000(min(o.repeats, 5))),
    "dask": (("dask.time_ratio", "dask.max_difference"), lambda o: dask(o.data)),
    "predict": (
        ("predict.one_row_ms", "predict.one_row_compiled_ms", "predict.rows_per_second"),
        lambda o: predict(o.repeats),
    ),
    "thousands": ((), lambda o: thousands(o.classes)),
}


def read(path: str | None) -> Record:
    """What is in the file already."""
    if path is None or not Path(path).is_file():
        return {}
    found: Record = json.loads(Path(path).read_text())
    return found


def is_known(content: Record, part: str, version: str) -> bool:
    """Whether the figures of a part are there, from the same code."""
    same = content.get("details", {}).get(part, {}).get("bayesvm") == version
    return same and all(name in content for name in PARTS[part][0])


def with_gpu(content: Record, gpu: Record) -> Record:
    """The run on an accelerator taken over, and how much faster its sweep is than that of two cores.

    Both make the same sweep: features anew from standardised rows that are
    in memory, and the like with features kept. The figure is the smaller one.
    """
    details = dict(content.get("details", {}))
    details["gpu"] = gpu
    here = details.get("sweep")
    if here is None:
        raise SystemExit("the sweep of two cores is not in the file yet: run --only sweep first")
    ratios = {}
    for kind in ("kept", "anew"):
        times = [v["median_ms"] for k, v in gpu["sweep"].items() if k.startswith(f"{kind}, float64")]
        ratios[kind] = round(1e3 * here[kind]["sweep_s"] / min(times), 1)
    details["gpu"]["speedup"] = ratios
    if "runs" in gpu.get("grid", {}):
        details["gpu"]["model"] = cost_model.summary(gpu["grid"]["runs"])
    return {**content, "gpu.speedup": min(ratios.values()), "details": details}


def ordered(content: Record) -> Record:
    """Figures first, in the order of the bars."""
    figures = {name: content[name] for name in BARS if name in content}
    return {**figures, **{k: content[k] for k in ("model", "details") if k in content}}


def report(content: Record, threads: int = THREADS) -> bool:
    """Print the figures with their bars; whether all that are there hold."""
    print(f"\n{'figure':<30}{'measured':>12}{'bar':>14}   verdict ({threads} threads)")
    fine = True
    for name, (sign, bar) in BARS.items():
        if name not in content:
            print(f"{name:<30}{'-':>12}{sign + ' ' + format(bar, 'g'):>14}   not measured")
            continue
        value = content[name]
        holds = value <= bar if sign == "<=" else value >= bar
        fine &= holds
        verdict = "ok" if holds else "NOT REACHED"
        print(f"{name:<30}{value:>12.4g}{sign + ' ' + format(bar, 'g'):>14}   {verdict}")
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = [*PARTS, *(figure for figures, _ in PARTS.values() for figure in figures)]
    parser.add_argument("--only", metavar="NAME", choices=names, action="append", help=f"of {names}")
    parser.add_argument("--json", metavar="FILE", help="figures are read from there and written to it")
    parser.add_argument("--data", help="folder of PMLB sets (default: as bayesvm_studies.datasets)")
    parser.add_argument("--repeats", type=int, default=7, help="timed repetitions (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=THREADS, help="to try the script, without --json")
    parser.add_argument("--rows", type=int, help="rows of poker: to try the script, without --json")
    parser.add_argument("--classes", type=int, default=10_000, help="of --only thousands")
    parser.add_argument("--again", action="store_true", help="measure what is known too")
    parser.add_argument(
        "--gpu",
        metavar="FILE",
        action="append",
        help="take over what scale_gpu wrote; of several runs, each step from the first that has it",
    )
    parser.add_argument("--model", action="store_true", help="measure and fit the cost model")
    # What is measured in a process of its own, by this command again.
    parser.add_argument("--child", choices=("poker", "thousands", "single", "dask"), help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.json and (given.rows is not None or given.threads != THREADS):
        parser.error("--rows and --threads are for trying the script: without --json")
    use_threads(given.threads)
    warnings.simplefilter("ignore")
    if given.child:
        print(json.dumps(_child(given)))
        return 0
    content = read(given.json)

    def keep() -> None:
        write_json(given.json, ordered(content), threads=given.threads, repeats=given.repeats, bars=BARS)

    if given.gpu:
        runs = [read(name) for name in given.gpu]
        content = with_gpu(content, {step: run[step] for run in reversed(runs) for step in run})
        keep()
    elif given.model:
        with torch.no_grad():
            content["model"] = cost_model.run(given.repeats)
        keep()
    else:
        for part in _wanted(given, content):
            start = time.perf_counter()
            try:
                with torch.no_grad():
                    figures, details = PARTS[part][1](given)
            except Exception as error:  # the other figures can still be had
                print(f"{part}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            details |= {"bayesvm": source_version(), "took_s": round(time.perf_counter() - start, 1)}
            content |= {**figures, "details": {**content.get("details", {}), part: details}}
            keep()
    return 0 if report(content, given.threads) else 1


def _child(given: Options) -> Record:
    if given.child == "poker":
        return _child_poker(given.data)
    if given.child == "thousands":
        return _child_thousands(given.classes)
    return _child_dask(given.child, given.data, given.save)


def _wanted(given: Options, content: Record) -> list[str]:
    """Parts to measure: those asked for whose figures are not known."""
    asked = set(given.only or PARTS)
    chosen = [part for part, (figures, _) in PARTS.items() if asked & {part, *figures}]
    known = [part for part in chosen if not given.again and is_known(content, part, source_version())]
    for part in known:
        print(f"{part}: known", file=sys.stderr)
    return [part for part in chosen if part not in known]


if __name__ == "__main__":
    sys.exit(main())
