"""The kernel by gradients over all rows, after a sample has shown it the way."""

from __future__ import annotations

import math
from typing import Any

from bayesvm.core import gaussian
from bayesvm.core.kernels.base import Params
from bayesvm.core.linalg import NotPositiveDefiniteError
from bayesvm.inference.blocks import TrainingRows
from bayesvm.inference.coordinate import base_gaussian
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.optimiser import Adam
from bayesvm.inference.rivals import RivalRule
from bayesvm.streaming.chunks import Chunk
from bayesvm.streaming.engine import Engine
from bayesvm.streaming.passes.compose import InParts
from bayesvm.streaming.passes.kernel_gradient import KernelGradient
from bayesvm.streaming.passes.prepare import PART_ROWS, Standardise, kept_bytes

__all__ = ["polished"]

# Each step moves q half the way to where the rows want it under this kernel.
_STEP = 0.5


def polished(
    engine: Engine[Chunk],
    standardise: Standardise,
    known: TrainingRows,
    rule: RivalRule,
    natural: Natural,
    n_rows: int,
    steps: int,
    rate: float,
) -> tuple[Params, Natural, bool]:
    """Move the kernel uphill on the bound of all rows, one pass a step (eq. 5.7).

    q moves along. The answer is the kernel of the highest bound, its q, and
    whether Ctrl-C ended the steps early.

    Parameters
    ----------
    engine, standardise : the rows
    known : TrainingRows
        Kernel and inducing points to begin with.
    rule, natural : how sites come about, and q
    n_rows : int
    steps : int
    rate : float
        Adam's, falling linearly to a twentieth.
    """
    kernel, Z = known.kernel, known.Z
    fits = kept_bytes(n_rows, Z.shape[1], Z.element_size()) <= engine.may_keep
    rows: Engine[Any] = engine.kept(standardise) if fits else engine
    params = {name: value.clone() for name, value in known.params.items()}
    adam = Adam(list(params.values()), betas=(0.9, 0.95))
    base = Natural.prior(natural.linear.shape[0], natural.precision)
    prior, centre = base_gaussian(base, rule)
    natural, q = natural.posterior(centre)
    best, highest = (known.params, natural), -math.inf
    for step in range(steps):
        at = {name: value.clone() for name, value in params.items()}
        try:
            work: Any = KernelGradient(kernel, at, Z, rule, q, step)
            sums = rows.total(work if rows is not engine else InParts(standardise, work, PART_ROWS))
        except NotPositiveDefiniteError:
            break
        except KeyboardInterrupt:
            return *best, True
        bound = float(sums.value) - float(gaussian.kl_divergence(q, prior).sum())
        if not math.isfinite(bound):
            break
        natural, q = natural.towards(base.plus(sums.precision, sums.linear), _STEP).posterior(centre)
        if bound > highest:
            best, highest = (at, natural), bound
        adam.along([sums.gradient[name] for name in params], rate * (1.0 - 0.95 * step / steps))
    return *best, False
