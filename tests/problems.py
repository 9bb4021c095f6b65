"""Small random problems that several tests share."""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm._core.kernels import RBF, Kernel, Params
from bayesvm._inference.blocks import TrainingRows

DTYPE = torch.float64


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=DTYPE)


def uniform(*shape: int, seed: int, low: float = 0.0, high: float = 1.0) -> Tensor:
    return low + (high - low) * torch.rand(*shape, generator=generator(seed), dtype=DTYPE)


def labels(n: int, n_classes: int, seed: int) -> Tensor:
    """Class indices in which every class occurs."""
    y = torch.arange(n) % n_classes
    return y[torch.randperm(n, generator=generator(seed))]


def moments(n: int, n_classes: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Labels, means and variances as a fit would meet them."""
    y = labels(n, n_classes, seed)
    F = 1.5 * normal(n, n_classes, seed=seed + 1)
    s2 = uniform(n, n_classes, seed=seed + 2, low=0.05, high=1.0)
    return y, F, s2


def classification_rows(
    n: int,
    n_classes: int,
    n_inducing: int,
    seed: int,
    n_features: int = 2,
    kernel: Kernel | None = None,
    weight: Tensor | None = None,
    unit: Tensor | None = None,
    group: Tensor | None = None,
) -> TrainingRows:
    """Overlapping blobs, one per class, with inducing points among the rows."""
    y = labels(n, n_classes, seed)
    centres = 1.5 * normal(n_classes, n_features, seed=seed + 1)
    X = centres[y] + normal(n, n_features, seed=seed + 2)
    X = (X - X.mean(0)) / X.std(0)
    kernel = RBF(variance=2.0) if kernel is None else kernel
    params: Params = kernel.init(X)
    weight = torch.ones(n, dtype=DTYPE) if weight is None else weight
    unit = weight if unit is None else unit
    key = torch.randint(2**62, (n,), generator=generator(seed + 3))
    return TrainingRows(X, y, weight, unit, key, kernel, params, X[:n_inducing].clone(), n_classes, group)


def all_features(rows: TrainingRows) -> tuple[Tensor, Tensor]:
    """Whitened features and residuals of all rows."""
    A, residual = rows.features(rows.X)
    return A, residual
