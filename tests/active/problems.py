"""Small pools with known labels."""

from __future__ import annotations

import numpy as np


def moons(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two half circles."""
    from sklearn.datasets import make_moons

    return make_moons(n, noise=0.15, random_state=seed)


def blobs(n: int = 240, n_classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping clouds in two dimensions."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    angle = 2 * np.pi * y / n_classes
    return np.stack([np.cos(angle), np.sin(angle)], 1) * 1.5 + 0.6 * rng.standard_normal((n, 2)), y


def first_of_each(y: np.ndarray) -> dict[int, object]:
    """The first row of every class, labelled."""
    return {int(np.flatnonzero(y == c)[0]): c for c in np.unique(y)}


def random_moments(n: int, n_classes: int, spread: float, seed: int = 0, scale: float = 1.0):
    """Latent means and variances whose deviations differ within rows by a factor of up to ``spread``."""
    rng = np.random.default_rng(seed)
    mean = scale * rng.standard_normal((n, n_classes))
    variance = rng.uniform(0.2, 3.0, (n, 1)) * spread ** (2 * rng.uniform(-0.5, 0.5, (n, n_classes)))
    return mean, variance
