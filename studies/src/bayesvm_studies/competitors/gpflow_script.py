"""Run by a Python that has GPflow: builds its SVGP, then takes steps and predicts as it is told.

``gpflow_script.py ROWS.npz OPTIONS``, options as JSON. Requests come on
standard input and answers go to standard output, one line of JSON each.
Imports nothing of this library, which may not be installed there.
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

# GPflow samples the softmax; in training it takes its own hundred draws a row.
TEST_DRAWS = 10_000
_PART_ROWS = 100


class Server:
    """A compiled model that answers requests.

    Parameters
    ----------
    arrays : dict
        Standardised rows ``S``, class numbers ``labels``, inducing points
        ``Z``, and ``m`` and ``cov`` of the whitened q if it starts elsewhere
        than at the prior.
    options : dict
        ``n_classes``, ``likelihood`` ("robustmax" or "softmax"), Adam's
        ``learning_rate`` and ``epsilon``, ``natural_rate`` of q's natural
        gradients (None: Adam for everything), ``log_parameters`` (whether
        Adam moves logarithms of the kernel's parameters) and ``batch_size``
        (None: all rows).
    """

    def __init__(self, arrays: dict[str, Any], options: dict[str, Any]) -> None:
        tf: Any = import_module("tensorflow")
        gpflow: Any = import_module("gpflow")
        keras: Any = import_module("tf_keras")
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.random.set_seed(0)
        self._tf = tf
        self._before_mb = _peak_mb()
        self._X = tf.constant(arrays["S"])
        self._y = tf.constant(arrays["labels"][:, None].astype(np.int64))
        n_rows, n_features = arrays["S"].shape
        n_classes = options["n_classes"]
        kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(n_features, n_features**0.5))
        if options["log_parameters"]:  # GPflow's own choice, softplus, is another step length
            exp = import_module("tensorflow_probability").bijectors.Exp()
            kernel.variance = gpflow.Parameter(kernel.variance.numpy(), transform=exp)
            kernel.lengthscales = gpflow.Parameter(kernel.lengthscales.numpy(), transform=exp)
        # Robust-max has a fixed epsilon of 1e-3.
        likelihood = {"robustmax": gpflow.likelihoods.MultiClass, "softmax": gpflow.likelihoods.Softmax}
        self._model = model = gpflow.models.SVGP(
            kernel,
            likelihood[options["likelihood"]](n_classes),
            inducing_variable=arrays["Z"].copy(),
            num_latent_gps=n_classes,
            num_data=n_rows,
        )
        if "m" in arrays:
            model.q_mu.assign(arrays["m"].T)
            model.q_sqrt.assign(np.linalg.cholesky(arrays["cov"]))
        # The older class is as fast as the newer one and its state can be reset.
        adam = keras.optimizers.legacy.Adam(options["learning_rate"], epsilon=options["epsilon"])
        natural = None
        if options["natural_rate"]:
            gpflow.set_trainable(model.q_mu, False)
            gpflow.set_trainable(model.q_sqrt, False)
            natural = gpflow.optimizers.NaturalGradient(gamma=options["natural_rate"])
        variables = model.trainable_variables

        @tf.function  # type: ignore[untyped-decorator, unused-ignore]
        def step(X: Any, y: Any) -> Any:
            # GPflow's manual: a natural step of q, then one of Adam for everything else.
            if natural is not None:
                natural.minimize(lambda: model.training_loss((X, y)), [(model.q_mu, model.q_sqrt)])
            with tf.GradientTape() as tape:
                loss = model.training_loss((X, y))
            adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        self._step = step
        # The first step compiles; then everything is put back to its start.
        everything = [*variables, model.q_mu.unconstrained_variable, model.q_sqrt.unconstrained_variable]
        before = [variable.numpy() for variable in everything]
        start = time.perf_counter()
        batch_size = options["batch_size"]
        step(*self._batch(None if batch_size is None or batch_size >= n_rows else list(range(batch_size))))
        self.compile_s = time.perf_counter() - start
        for variable, value in zip(everything, before, strict=True):
            variable.assign(value)
        for state in adam.variables():
            state.assign(tf.zeros_like(state))

    def _batch(self, rows: list[int] | None) -> tuple[Any, Any]:
        if rows is None:
            return self._X, self._y
        return self._tf.gather(self._X, rows), self._tf.gather(self._y, rows)

    def step(self, rows: list[int] | None, times: int) -> dict[str, float]:
        """Steps on some rows, or on all; drawing them is off the clock."""
        batch = self._batch(rows)
        start, processor = time.perf_counter(), time.process_time()
        for _ in range(times):
            self._step(*batch).numpy()
        return {"wall_s": time.perf_counter() - start, "processor_s": time.process_time() - processor}

    def predict(self, path: str) -> dict[str, Any]:
        """Probabilities for the rows of a file, written beside it."""
        rows, likelihood = np.load(path), self._model.likelihood
        parts = [rows]
        sampled = hasattr(likelihood, "num_monte_carlo_points")
        if sampled:
            draws, likelihood.num_monte_carlo_points = likelihood.num_monte_carlo_points, TEST_DRAWS
            parts = np.array_split(rows, max(1, len(rows) // _PART_ROWS))
        start = time.perf_counter()
        proba = np.concatenate([self._model.predict_y(self._tf.constant(p))[0].numpy() for p in parts])
        seconds = time.perf_counter() - start
        if sampled:
            likelihood.num_monte_carlo_points = draws
        answer = Path(path).with_name("proba.npy")
        np.save(answer, proba)
        return {"predict_s": seconds, "peak_mb": _peak_mb() - self._before_mb, "proba": str(answer)}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main() -> None:
    """Build the model and answer until there is nothing more on standard input."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    with np.load(sys.argv[1]) as arrays:
        server = Server(dict(arrays), json.loads(sys.argv[2]))
    _answer({"compile_s": round(server.compile_s, 2)})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "predict" in request:
                _answer(server.predict(request["predict"]))
            else:
                _answer(server.step(request["rows"], request["steps"]))
        except Exception as error:  # a failed factorisation ends a run, as it would a user's
            _answer({"error": f"{type(error).__name__}: {error}"[:300]})


def _answer(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
