"""Small data sets and the battery of assertions that every fitted model must pass."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_blobs, make_moons

from bayesvm import BayesianSVC

# Learning the kernel is irrelevant to most contracts and takes most of the time.
FAST = {"hyperparameters": "fixed", "random_state": 0}


def three_blobs(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping classes in three dimensions."""
    return make_blobs(n, centers=3, n_features=3, cluster_std=2.0, random_state=seed)


def two_moons(n: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that a straight line cannot separate."""
    return make_moons(n, noise=0.2, random_state=seed)


def problem(n_classes: int, n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A problem with two or three classes."""
    return two_moons(n, seed) if n_classes == 2 else three_blobs(n, seed)


def assert_sound(model: BayesianSVC, X: np.ndarray) -> None:
    """Everything a fitted model says is finite, consistent and in range."""
    n, C = len(X), len(model.classes_)
    p = model.predict_proba(X)
    assert p.shape == (n, C)
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-6)
    assert np.array_equal(model.predict(X), model.classes_[p.argmax(1)])
    decision = model.decision_function(X)
    assert np.isfinite(decision).all()
    if C == 2:
        assert decision.shape == (n,)
        assert np.array_equal(decision > 0, p.argmax(1) == 1)
    else:
        assert np.array_equal(decision.argmax(1), p.argmax(1))
    mean, std = model.predict_latent(X)
    assert mean.shape == std.shape == (n, C)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    for part in model.uncertainty(X):
        assert (part >= 0).all()
    ratio = model.variation_ratio(X)
    assert ((ratio >= 0) & (ratio <= 1 - 1 / C + 1e-6)).all()
    assert np.isfinite(model.log_variation_ratio(X)).all()
    draws = model.sample_proba(X, 3, random_state=0)
    assert draws.shape == (3, n, C)
    assert np.isfinite(draws).all()
    assert np.isfinite([model.loo_score_, model.loo_log_loss_, model.temperature_]).all()
    for name in ("loo_proba_", "elbo_curve_", "kernel_curve_", "inducing_points_"):
        assert np.isfinite(getattr(model, name)).all(), name
