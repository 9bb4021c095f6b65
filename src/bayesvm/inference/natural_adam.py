"""Natural gradients for q, Adam for kernel and inducing points, from one evaluation of a minibatch.

The recipe of Hensman et al. (2015) and Salimbeni et al. (2018), section 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from bayesvm.inference.blocks import TrainingRows
from bayesvm.inference.epochs import recent_gain, shuffled
from bayesvm.inference.natural_adam_walk import NaturalAdam
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.rivals import AllRivals
from bayesvm.inference.task import Member, Method, Outcome, Settings, Task
from bayesvm.progress import Progress, Step

__all__ = ["METHOD", "ascend"]

EPOCHS = 500
_SETTLING_STEPS = 8
_SETTLING_RATE = 0.5


def _batches(n_rows: int, size: int, seed: int, epoch: int, device: torch.device) -> Iterator[Tensor | None]:
    """Shuffled minibatches of about one size, by seed and epoch; None stands for all rows."""
    if size >= n_rows:
        yield None
        return
    # A small last one would count as much as the others.
    yield from shuffled(n_rows, seed, epoch, device).tensor_split(math.ceil(n_rows / size))


def ascend(
    rows: TrainingRows, rule: AllRivals, start: Natural, base: Natural, settings: Settings, progress: Progress
) -> Outcome:
    """Step through shuffled minibatches until the bound no longer rises.

    Converged when the mean bound of ten epochs no longer exceeds that of the
    ten before by more than ``tol`` nats a row.
    """
    walk = NaturalAdam(rows, rule, start, base, settings)
    total = float(rows.weight.sum())
    curve: list[float] = []
    converged = interrupted = False
    last = walk.snapshot()

    def state() -> Outcome:
        return walk.outcome(curve, converged, interrupted)

    try:
        for epoch in range(1, settings.max_iter + 1):
            last = walk.snapshot()
            value = 0.0
            for index in _batches(len(rows), settings.batch_size, settings.seed, epoch, rows.X.device):
                value += float(walk.step(index))
            bound = walk.bound_of(value)
            if not math.isfinite(bound) or walk.diverged():
                raise ArithmeticError("q or the kernel left the range of numbers")
            curve.append(bound)
            gain = recent_gain(curve)
            converged = settings.tol > 0 and gain < settings.tol * total
            if progress(Step("posterior", epoch, settings.max_iter, bound, gain, state)) or converged:
                break
        walk.settle(_SETTLING_STEPS, _SETTLING_RATE)
    except KeyboardInterrupt:
        interrupted = True
    except ArithmeticError:  # a rate that is too large: back to where the epoch began
        walk.return_to(last)
    return state()


def _missing(member: Member) -> str | None:
    if isinstance(member.rule, AllRivals):
        return None
    return "exact expectations, which have a gradient for the kernel, and not one rival a row"


def _run(task: Task, progress: Progress) -> Outcome:
    rows, member, start, base, settings = task
    assert isinstance(member.rule, AllRivals)
    return ascend(rows, member.rule, start, base, settings, progress)


METHOD = Method(_run, max_iter=EPOCHS, learns_kernel=True, missing=_missing)
