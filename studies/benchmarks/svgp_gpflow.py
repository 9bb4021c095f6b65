"""Worker of svgp.py: GPflow's SVGP with either likelihood, by natural gradients and Adam or by Adam alone.

A step of the first is what GPflow's manual does: a natural step of q, then a
step of Adam for kernel and inducing points, compiled into one function. Runs
in the environment of ``make peers-env``.
"""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras
from peers_worker import Options, Problem, Result, run_worker
from svgp_steps import start_of, take_steps

__all__ = ["fit"]

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
# GPflow samples the softmax; a hundred draws a row are its own default in training.
TEST_DRAWS = 10_000


def likelihood_of(name: str, n_classes: int) -> Any:
    """GPflow's likelihood of our name."""
    if name == "robustmax":
        return gpflow.likelihoods.MultiClass(n_classes)  # epsilon is 1e-3 and fixed
    return gpflow.likelihoods.Softmax(n_classes)


def fit(problem: Problem, options: Options) -> Result:
    """Seconds of every step, and test scores after the last."""
    n_rows, n_features = problem.S.shape
    tf.random.set_seed(0)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(n_features, n_features**0.5))
    # Adam moves logarithms, as ours does; GPflow's own choice, softplus, is another step length.
    exp = tfp.bijectors.Exp()
    kernel.variance = gpflow.Parameter(kernel.variance.numpy(), transform=exp)
    kernel.lengthscales = gpflow.Parameter(kernel.lengthscales.numpy(), transform=exp)
    model = gpflow.models.SVGP(
        kernel,
        likelihood_of(options["likelihood"], problem.n_classes),
        inducing_variable=problem.Z.copy(),
        num_latent_gps=problem.n_classes,
        num_data=n_rows,
    )
    found = start_of(problem, options)
    if found is not None:
        model.q_mu.assign(found[0].T)
        model.q_sqrt.assign(np.linalg.cholesky(found[1]))
    adam = tf_keras.optimizers.legacy.Adam(options["rate"], epsilon=options["epsilon"])
    natural = options["natural_rate"]
    if natural:
        gpflow.set_trainable(model.q_mu, False)
        gpflow.set_trainable(model.q_sqrt, False)
        by_nature = gpflow.optimizers.NaturalGradient(gamma=natural)
    variables = model.trainable_variables
    X, y = tf.constant(problem.S), tf.constant(problem.y[:, None].astype(np.int64))

    @tf.function
    def compiled_step(X: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        if natural:
            by_nature.minimize(lambda: model.training_loss((X, y)), [(model.q_mu, model.q_sqrt)])
        with tf.GradientTape() as tape:
            loss = model.training_loss((X, y))
        adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    def draw(chosen: np.ndarray | None) -> tuple[tf.Tensor, tf.Tensor]:
        return (X, y) if chosen is None else (tf.gather(X, chosen), tf.gather(y, chosen))

    def predict() -> np.ndarray:
        if options["likelihood"] == "softmax":
            model.likelihood.num_monte_carlo_points = TEST_DRAWS
        parts = np.array_split(problem.S_test, max(1, len(problem.S_test) // 100))
        return np.concatenate([model.predict_y(tf.constant(part))[0].numpy() for part in parts])

    # The first step compiles; then everything is put back to its start.
    everything = [*variables, model.q_mu.unconstrained_variable, model.q_sqrt.unconstrained_variable]
    before = [variable.numpy() for variable in everything]
    compiled_step(*draw(np.arange(n_rows)[: options.get("batch_size") or n_rows]))
    for variable, value in zip(everything, before, strict=True):
        variable.assign(value)
    for state in adam.variables():
        state.assign(tf.zeros_like(state))
    return take_steps(problem, options, draw, lambda batch: compiled_step(*batch).numpy(), predict)


if __name__ == "__main__":
    run_worker(fit)
