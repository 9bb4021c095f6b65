"""Run by another Python: trains GPflow's SVGP, then predicts the rows of every file it is told of.

``gpflow_script.py ROWS.npz RATE STEPS``; answers are lines of JSON. Imports
nothing of this library, which may not be installed there.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main() -> None:
    """Train and answer until there is nothing more on standard input."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    rows, rate, steps = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    tf: Any = import_module("tensorflow")
    gpflow: Any = import_module("gpflow")
    keras: Any = import_module("tf_keras")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    with np.load(rows) as arrays:
        S, labels, Z = arrays["S"], arrays["labels"], arrays["Z"]
    n_classes, n_features = int(labels.max()) + 1, S.shape[1]
    model = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(lengthscales=np.full(n_features, n_features**0.5)),
        gpflow.likelihoods.MultiClass(n_classes),
        inducing_variable=Z.copy(),
        num_latent_gps=n_classes,
        num_data=len(S),
    )
    adam = keras.optimizers.legacy.Adam(rate)
    variables = model.trainable_variables
    X, y = tf.constant(S), tf.constant(labels[:, None].astype(float))

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss((X, y))
        adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    first = [variable.numpy() for variable in variables]
    start = time.perf_counter()
    step()  # compiles; then everything is put back to its start
    compile_s = time.perf_counter() - start
    for variable, value in zip(variables, first, strict=True):
        variable.assign(value)
    for state in adam.variables():
        state.assign(tf.zeros_like(state))

    start = time.perf_counter()
    for _ in range(steps):
        step()
    _say({"fit_s": time.perf_counter() - start, "compile_s": round(compile_s, 2)})
    for line in sys.stdin:
        path = Path(line.strip())
        test = np.load(path)
        start = time.perf_counter()
        proba = model.predict_y(test)[0].numpy()
        seconds = time.perf_counter() - start
        np.save(path.with_name("proba.npy"), proba)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6 - before_mb
        _say({"predict_s": seconds, "peak_mb": peak_mb, "proba": str(path.with_name("proba.npy"))})


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
