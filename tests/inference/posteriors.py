"""Posteriors by other means than the library's chains: quadrature and plain elliptical slices."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import torch
from scipy import integrate

from bayesvm._core.chains import Chains
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import Likelihood
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.rivals import AllRivals
from bayesvm._inference.task import Member, Method, Settings, Task
from bayesvm._progress import Progress, silent
from tests.problems import all_features
from tests.reference import elliptical_slice_samples


def task_of(rows: TrainingRows, likelihood: Likelihood, n_latents: int, **settings) -> Task:
    base = Natural.prior(n_latents, rows.Lz)
    return Task(rows, Member(likelihood, AllRivals(likelihood)), base, base, Settings(**settings))


def chains_of(method: Method, task: Task, progress: Progress = silent) -> Chains:
    chains = method.run(task, progress).ascent.chains
    assert chains is not None
    return chains


def moments(chains: Chains) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the latents of the rows, shape (N, J)."""
    f = chains.f.double().flatten(0, 1)
    return f.mean(0).numpy(), f.std(0).numpy()


def one_dimensional(variance: float, sign: int, weight: float) -> tuple[float, float]:
    """Mean and deviation of f ~ N(0, variance) times exp(-2 c max(0, 1 - y f)), by quadrature."""

    def density(f: float) -> float:
        return math.exp(-0.5 * f * f / variance - 2.0 * weight * max(0.0, 1.0 - sign * f))

    far = 12.0 * math.sqrt(variance)
    edges = sorted({-far, 0.0, float(sign), far})

    def integral(function) -> float:
        return sum(
            integrate.quad(lambda f: function(f) * density(f), a, b, epsabs=1e-12)[0]
            for a, b in itertools.pairwise(edges)
        )

    mass = integral(lambda f: 1.0)
    mean = integral(lambda f: f) / mass
    return mean, math.sqrt(integral(lambda f: (f - mean) ** 2) / mass)


def prior_factor(rows: TrainingRows, fitc: bool) -> np.ndarray:
    """Factor of the prior covariance of the rows' latents: A A' with or without the residuals."""
    A, residual = all_features(rows)
    K = A @ A.mT + 1e-10 * torch.eye(len(rows), dtype=A.dtype)
    return torch.linalg.cholesky(K + torch.diag(residual) if fitc else K).numpy()


def reference_moments(
    rows: TrainingRows, likelihood: Likelihood, n_latents: int, fitc: bool, centred: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The same moments by slices around the prior, in the space of the latents, many chains."""

    def log_likelihood(f: np.ndarray) -> np.ndarray:
        value = likelihood.log_likelihood(rows.y, torch.as_tensor(f).mT)
        return (value @ rows.weight).numpy()

    f = elliptical_slice_samples(
        prior_factor(rows, fitc), log_likelihood, n_latents, n_chains=150, n_steps=900, burn_in=200, seed=0
    )
    if centred:
        f = f - f.mean(1, keepdims=True)
    return f.mean(0).T, f.std(0).T


def only_row(variance: float, sign: int, weight: float, rows: TrainingRows) -> TrainingRows:
    """One row that is its own inducing point under a kernel of some variance."""
    params = {**rows.params, "log_variance": torch.tensor(math.log(variance), dtype=torch.float64)}
    X = rows.X[:1]
    return replace(
        rows,
        X=X,
        y=torch.tensor([(sign + 1) // 2]),
        weight=torch.tensor([weight], dtype=torch.float64),
        key=rows.key[:1],
        params=params,
        Z=X.clone(),
        n_classes=2,
    )
