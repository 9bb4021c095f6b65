"""Numbers that every untuned fit uses; docs/defaults.md says which runs chose them."""

from __future__ import annotations

import math

import torch

__all__ = ["affordable_exact", "auto_inducing"]

DEFAULT_KERNEL = "rbf+additive"

# Learning the kernel.
LEARNING_STEPS = 25
LEARNING_RATE = 0.35
LEARNING_ROWS = 1000
LEARNING_INDUCING = 192
LEARNING_CLASSES = 32
PRIOR_SCALE = 0.7
LEARNING_DTYPE = torch.float32
SITE_DAMPING = 0.5
BOUND_WEIGHT = {"blend": 1.0, "elbo": 1.0, "loo": 0.0}
LEAVE_ONE_OUT_WEIGHT = {"blend": 1.0, "elbo": 0.0, "loo": 1.0}

# Class probabilities.
OFFSET_PRECISION = 1.0

# The paper's recipe.
PAPER_INDUCING = 64

# Fitting q.
MOST_INDUCING = 256
LARGE_ROWS = 100_000
LARGE_INDUCING = 128
FEWEST_INDUCING = 32
POSTERIOR_NUMBERS = 3e7
BATCH_SIZE = 1024
TOLERANCE = 1e-2
EXACT_FLOPS = 4e9


def auto_inducing(n_rows: int, n_classes: int) -> int:
    """Number of inducing points for that many distinct rows and classes.

    Fewer where a sweep over many rows, or C matrices of P × P, would dominate.
    """
    most = LARGE_INDUCING if n_rows > LARGE_ROWS else MOST_INDUCING
    return max(FEWEST_INDUCING, min(most, int(math.sqrt(POSTERIOR_NUMBERS / n_classes))))


def affordable_exact(n_rows: int, n_inducing: int, n_latents: int) -> bool:
    """Whether exact rivals, which cost C N P^2 a sweep, are the default."""
    return float(n_latents) * n_rows * n_inducing**2 <= EXACT_FLOPS
