"""Numbers that every untuned fit uses; docs/defaults.md says which runs chose them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

DEFAULT_KERNEL = "0.1*rbf + anova"

# Learning the kernel.
LEARNING_STEPS = 25
LEARNING_RATE = 0.35
LEARNING_CLASSES = 32
# Over all rows of a fit to chunks, where the bound alone is what the kernel is to maximise.
POLISH_STEPS = 12
POLISH_RATE = 0.05
LEVEL_SCALE = 0.7
LEARNING_DTYPE = torch.float32
SITE_DAMPING = 0.5
# Bound and leave-one-out score the same rows: their mean weighs against the prior as one
# log-likelihood does, their sum counts every row twice (27 shapes of noise: log-loss .003 above
# the class frequencies', .009 with the sum; dense rules .592, .604; 63 splits of small sets .549, .540).
# The softmax of a committee is a proper likelihood, under which the sum does not overfit (the same noise:
# .003 below with the mean, .004 below with the sum; 68 splits of small sets .548, .538).
BOUND_WEIGHT = {"blend": 0.5, "committee": 1.0, "elbo": 1.0, "loo": 0.0}
LEAVE_ONE_OUT_WEIGHT = {"blend": 0.5, "committee": 1.0, "elbo": 0.0, "loo": 1.0}

# Rows of a class below which its rivals lose rows with it.
SHORT_CLASS = 3.0

# The paper's recipe.
PAPER_INDUCING = 64

# Up to this many rows a fit holds all of them; beyond, it passes over chunks of them.
IN_MEMORY_ROWS = 100_000

# Fitting q.
MOST_INDUCING_ALL_LATENTS = 256
FEWEST_INDUCING = 32
# Two classes are one function, which can afford more points: churn and phoneme gain 4 and 1 % of log-loss
# for half as much time again, with three and more classes next to nothing is gained (docs/defaults.md).
TWO_CLASS_INDUCING = 512
FEWEST_FOR_DETAIL = 1_500
POSTERIOR_NUMBERS = 3e7
BATCH_SIZE = 1024
TOLERANCE = 1e-2
EXACT_FLOPS = 1.5e10
FEWEST_EXACT_INDUCING = 192
# Sweeps of exact rivals begin with a sample: an eighth of the rows, but not fewer than this.
FIRST_SHARE = 8
FEWEST_FIRST = 2048
SINGLE_FLOPS = 2.5e8


class Sizes(NamedTuple):
    """How much of the data a fit looks at.

    Attributes
    ----------
    inducing : int
        Inducing points of the fit, at most.
    learning_rows, learning_inducing : int
        Rows and inducing points while the kernel is learned, at most.
    """

    inducing: int
    learning_rows: int
    learning_inducing: int


# From this many distinct rows on. The last line bounds the time and memory of a sweep.
SIZES = {
    0: Sizes(256, 1000, 192),
    1_500: Sizes(256, 2000, 256),
    5_000: Sizes(512, 2000, 384),
    100_000: Sizes(128, 2000, 192),
}


def sizes(n_rows: int) -> Sizes:
    """The sizes for that many distinct rows."""
    return SIZES[max(least for least in SIZES if least <= n_rows)]


def auto_inducing(n_rows: int, n_classes: int, all_latents: bool = False) -> int:
    """Number of inducing points for that many distinct rows and classes.

    Fewer where C matrices of P × P would dominate, and where every row touches
    every latent function (``all_latents``), which costs C N P^2 a sweep.
    """
    most = sizes(n_rows).inducing
    if n_classes == 2 and n_rows >= FEWEST_FOR_DETAIL:
        most = max(most, TWO_CLASS_INDUCING)
    if all_latents:
        most = min(most, MOST_INDUCING_ALL_LATENTS)
    return max(FEWEST_INDUCING, min(most, int(math.sqrt(POSTERIOR_NUMBERS / n_classes))))


def exact_inducing(n_rows: int, n_inducing: int, n_latents: int) -> int:
    """How many inducing points exact rivals can afford, at most ``n_inducing`` and at least a few."""
    affordable = int(math.sqrt(EXACT_FLOPS / (float(n_latents) * n_rows)))
    return min(n_inducing, max(affordable, FEWEST_EXACT_INDUCING))


def affordable_exact(n_rows: int, n_inducing: int, n_latents: int) -> bool:
    """Whether exact rivals, which cost C N P^2 a sweep, are the default."""
    return float(n_latents) * n_rows * n_inducing**2 <= EXACT_FLOPS


def worth_single(n_rows: int, n_inducing: int) -> bool:
    """Whether products over the rows, which cost N P^2 a sweep, are large enough for single precision."""
    return float(n_rows) * n_inducing**2 >= SINGLE_FLOPS
