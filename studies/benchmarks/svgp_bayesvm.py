"""Worker of svgp.py: the steps that SVGPClassifier takes, from where GPflow starts.

The estimator starts q from a regression and chooses when to stop; here q
starts from the prior and takes a given number of steps on given rows, so that
nothing but the implementation differs.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
from peers_worker import Options, Problem, Result, run_worker
from svgp_steps import scored, start_of, take_steps

from bayesvm._core import gaussian
from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._core.likelihoods import RobustMax, Softmax
from bayesvm._inference import adam
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.natural_adam import NaturalAdam
from bayesvm._inference.rivals import MIN_VARIANCE, AllRivals
from bayesvm._inference.task import Outcome, Settings
from bayesvm._progress import Step
from bayesvm.kernels import RBF

__all__ = ["fit"]

torch.set_num_threads(1)
LIKELIHOODS = {"robustmax": RobustMax, "softmax": Softmax}


def fit(problem: Problem, options: Options) -> Result:
    """Seconds of every step, and test scores after the last."""
    likelihood = LIKELIHOODS[options["likelihood"]]()
    X, y = torch.as_tensor(problem.S), torch.as_tensor(problem.y).long()
    kernel = RBF()
    rows = TrainingRows(
        X=X,
        y=y,
        weight=torch.ones(len(y), dtype=X.dtype),
        key=torch.arange(len(y)),
        kernel=kernel,
        params=kernel.init(X),
        Z=torch.as_tensor(problem.Z),
        n_classes=problem.n_classes,
    )
    prior = Natural.prior(problem.n_classes, rows.Lz)
    start = prior
    found = start_of(problem, options)
    if found is not None:
        m, S = (torch.as_tensor(a) for a in found)
        start = Natural.of(Gaussian(m, torch.linalg.cholesky(torch.linalg.inv(S))))
    rule = AllRivals(likelihood)
    settings = Settings(rate=options["rate"], learn_kernel=True, learn_inducing=True)

    @torch.no_grad()
    def proba_of(outcome: Outcome) -> np.ndarray:
        rows, ascent = outcome
        A, residual = rows.features(torch.as_tensor(problem.S_test))
        s2 = (gaussian.variance(ascent.q, A) + residual[:, None]).clamp_min(MIN_VARIANCE)
        return likelihood.probabilities(gaussian.mean(ascent.q, A), s2).proba.numpy()

    if options["natural_rate"]:
        settings = replace(settings, natural_rate=options["natural_rate"])
        walk = NaturalAdam(rows, rule, start, prior, settings)

        def step(index: torch.Tensor | None) -> None:
            if options["in_turn"]:
                walk.step(index, move_rest=False)
                walk.step(index, move_q=False)
            else:
                walk.step(index)

        return take_steps(
            problem,
            options,
            lambda chosen: None if chosen is None else torch.as_tensor(chosen),
            step,
            lambda: proba_of(walk.outcome([], False, False)),
        )

    assert options["batch_size"] is None  # epochs of one step, on whose ends the clock is read
    settings = replace(settings, max_iter=options["steps"], batch_size=len(y), tol=-1.0)
    ends = [time.perf_counter()]

    def read_clock(step: Step) -> bool:
        ends.append(time.perf_counter())
        return False

    outcome = adam.ascend(rows, rule, start, settings, read_clock)
    return scored(problem, list(np.diff(ends)), proba_of(outcome))


if __name__ == "__main__":
    run_worker(fit)
