"""A fit on a cluster, in the middle of which a worker is killed.

The cluster is two processes of this machine. The rows are made by the workers
and never come here; the result is that of one process.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster

from bayesvm import BayesianSVC
from bayesvm.distributed import DaskBayesianSVC

N = 120_000


def label(X: np.ndarray) -> np.ndarray:
    """The class of each row, with some noise that depends on the row alone."""
    scores = np.stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 1] * X[:, 2], np.cos(X[:, 1]) - X[:, 0]], 1)
    return np.asarray((scores + 0.3 * np.sin(1e6 * X)).argmax(1))


def main() -> None:
    X = da.random.default_rng(0).normal(size=(N, 3), chunks=(10_000, 3))
    y = X.map_blocks(label, drop_axis=1, dtype=np.int64)
    arguments = {"n_inducing": 30, "kernel": "rbf", "random_state": 0}

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        threading.Timer(1.0, os.kill, (victim, signal.SIGKILL)).start()
        started = time.perf_counter()
        model = DaskBayesianSVC(**arguments).fit(X, y)
        seconds = time.perf_counter() - started
        print(f"two workers, one of them killed: {seconds:.1f} s, {model.n_iter_} sweeps")
        probabilities = model.predict_proba(X)
        print(f"lazy probabilities: {probabilities}")
        print(f"accuracy on all rows {model.score(X, y):.4f}, leave-one-out {model.loo_score_:.4f}")
        rows, labels = np.asarray(X), np.asarray(y)

    alone = BayesianSVC(**arguments).fit(rows, labels)
    difference = np.abs(alone.predict_proba(rows[:5000]) - model.predict_proba(rows[:5000])).max()
    print(f"largest difference from the fit of one process: {difference:.1e}")


if __name__ == "__main__":
    main()
