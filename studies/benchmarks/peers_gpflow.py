"""Worker of peers.py: GPflow's SVGP with the robust-max likelihood, trained by Adam.

One RBF kernel with ARD shared by all classes, length scales from sqrt(D) as
in BayesianSVC, whitened q with full covariances, inducing points learned too,
double precision (GPflow's default). Runs in the environment of
``make peers-env``.
"""

from __future__ import annotations

import time

import gpflow
import numpy as np
import tensorflow as tf
import tf_keras
from peers_worker import Options, Problem, Result, batches, run_worker, train

__all__ = ["fit"]

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)


def fit(problem: Problem, options: Options) -> Result:
    """A curve of test log-loss against seconds, and the seconds of compilation."""
    n_rows, n_features = problem.S.shape
    model = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(lengthscales=np.full(n_features, n_features**0.5)),
        gpflow.likelihoods.MultiClass(problem.n_classes),
        inducing_variable=problem.Z.copy(),
        num_latent_gps=problem.n_classes,
        num_data=n_rows,
    )
    # The older class is as fast as the newer one and its state can be reset.
    adam = tf_keras.optimizers.legacy.Adam(options["learning_rate"])
    variables = model.trainable_variables
    X, y = tf.constant(problem.S), tf.constant(problem.y[:, None].astype(float))
    X_test = tf.constant(problem.S_test)

    @tf.function
    def compiled_step(X: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = model.training_loss((X, y))
        adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    @tf.function
    def compiled_predict(X: tf.Tensor) -> tf.Tensor:
        return model.predict_y(X)[0]

    rows = batches(problem, options.get("batch_size"))

    def draw() -> tuple[tf.Tensor, tf.Tensor]:
        chosen = rows()
        return (X, y) if chosen is None else (tf.gather(X, chosen), tf.gather(y, chosen))

    # One step and one prediction compile; then everything is put back to its start.
    before = [variable.numpy() for variable in variables]
    start = time.perf_counter()
    compiled_step(*draw())
    compile_s = time.perf_counter() - start
    compiled_predict(X_test)
    for variable, value in zip(variables, before, strict=True):
        variable.assign(value)
    for state in adam.variables():
        state.assign(tf.zeros_like(state))

    result = train(
        problem,
        options["steps"],
        draw,
        lambda batch: compiled_step(*batch).numpy(),
        lambda: compiled_predict(X_test).numpy(),
    )
    return {**result, "compile_s": compile_s}


if __name__ == "__main__":
    run_worker(fit)
