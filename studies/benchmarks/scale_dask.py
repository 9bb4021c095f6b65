"""Two worker processes against one process with two threads: time, and how far apart the fits are."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scale_sweep import load_poker

__all__ = ["fit_in_this_process", "measure"]

P = 64
WORKERS = 2
CHUNK_ROWS = 65_536
NEW_ROWS = 10_000
Record = dict[str, Any]


def _save(model: Any, X: np.ndarray, path: str) -> None:
    fitted = model.model_
    np.savez(path, m=fitted.m, Z=fitted.Z, R=fitted.R, proba=model.predict_proba(X[:NEW_ROWS]))


def fit_in_this_process(kind: str, data: str | None, path: str, threads: int) -> None:
    """Fit poker in one process or on a cluster of two, save what came of it and print the seconds."""
    warnings.simplefilter("ignore")
    X, y, _ = load_poker(data)
    torch.set_num_threads(threads)
    if kind == "single":
        from bayesvm import BayesianSVC

        # In chunks, as the cluster has them: an array would also get leave-one-out of every row.
        batches = [(X[i : i + CHUNK_ROWS], y[i : i + CHUNK_ROWS]) for i in range(0, len(X), CHUNK_ROWS)]
        start = time.perf_counter()
        model = BayesianSVC(n_inducing=P, random_state=0).fit(batches)
        seconds = time.perf_counter() - start
    else:
        import dask.array as da
        from dask.distributed import Client, LocalCluster

        from bayesvm.distributed import DaskBayesianSVC

        cluster = LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
        )
        with cluster, Client(cluster) as client:
            chunks = [da.from_array(a, chunks=(CHUNK_ROWS, *a.shape[1:])) for a in (X, y)]
            held = client.persist(chunks)  # the data are where they are, as in the other process
            client.run(_ready)
            start = time.perf_counter()
            fitted = DaskBayesianSVC(n_inducing=P, random_state=0).fit(*held)
            seconds = time.perf_counter() - start
            model = fitted.to_local()
    _save(model, X, path)
    print(json.dumps({"seconds": round(seconds, 2)}))


def _ready() -> None:
    """Import what a fit imports, so that it is not on the clock."""
    import bayesvm.distributed._estimator  # noqa: F401

    torch.set_num_threads(1)


def measure(script: str, data: str | None, repeats: int) -> tuple[Record, Record]:
    """``dask.time_ratio`` and ``dask.max_difference``."""
    seconds, found = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("single", "dask"):
            path = str(Path(folder) / f"{kind}.npz")
            child = [
                sys.executable,
                script,
                "--fit-for-dask",
                kind,
                path,
                *(["--data", data] if data else []),
            ]
            done = subprocess.run(child, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{kind}: {done.stderr[-2000:]}")
            seconds[kind] = json.loads(done.stdout.splitlines()[-1])["seconds"]
            with np.load(path) as arrays:
                found[kind] = dict(arrays)
            print(f"{kind}: {seconds[kind]} s", file=sys.stderr, flush=True)
    apart = {
        name: float(np.abs(found["single"][name] - found["dask"][name]).max()) for name in ("m", "Z", "proba")
    }
    R = found["single"]["R"]
    apart["R, relative"] = float(np.abs(R - found["dask"]["R"]).max() / np.abs(R).max())
    figures = {
        "dask.time_ratio": round(seconds["dask"] / seconds["single"], 3),
        "dask.max_difference": max(apart.values()),
    }
    return figures, {"seconds": seconds, "differences": apart, "chunk_rows": CHUNK_ROWS, "workers": WORKERS}
