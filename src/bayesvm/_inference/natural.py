"""Stochastic natural gradients: damped site steps on minibatches (eq. 3.4)."""

from __future__ import annotations

from dataclasses import replace

import torch

from bayesvm._core import gaussian
from bayesvm._core.elbo import elbo
from bayesvm._core.gaussian import Natural
from bayesvm._core.sites import Statistics
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.coordinate import (
    base_gaussian,
    change_of_means,
    gaussian_of_sites,
    probe_features,
    size_of_means,
)
from bayesvm._inference.rivals import RivalRule, n_members
from bayesvm._inference.task import (
    Ascent,
    InMemory,
    Method,
    Outcome,
    Sweepable,
    Task,
    evaluate,
    needs_positive_sites,
    on_rows,
)
from bayesvm._progress import Progress, Step

# Steps fall as (k + 2)^-0.7: slowly enough to travel any distance, fast
# enough for the noise of minibatches to average out.
_EXPONENT = 0.7
_LARGEST_STEP = 0.5


def ascend(
    rows: TrainingRows | Sweepable,
    rule: RivalRule,
    start: Natural,
    base: Natural,
    batch_size: int,
    max_iter: int,
    tol: float,
    seed: int,
    progress: Progress,
) -> Ascent:
    """Pass over shuffled minibatches until an epoch no longer moves the latent means.

    Parameters are those of ``coordinate.ascend``; ``max_iter`` counts epochs.
    The sums of a minibatch are scaled to the whole data.
    """
    over = InMemory(rows) if isinstance(rows, TrainingRows) else rows
    prior, centre = base_gaussian(base, rule)
    natural, q = start.posterior(centre)
    probe, total = probe_features(over.sample), over.total_weight
    curve: list[float] = []
    converged = interrupted = False
    step = 0

    def state() -> Ascent:
        found = evaluate(over.sample, rule, q, base, step)
        # With only a sample of the rows in memory, the Gaussian of all sites is unknown.
        of_sites = gaussian_of_sites(over.sample, q, found.target)[0] if isinstance(over, InMemory) else None
        return Ascent(
            q, natural, found.sites, curve, len(curve), converged, interrupted, site_gaussian=of_sites
        )

    try:
        for epoch in range(1, max_iter + 1):
            before, value = q, 0.0
            for batch in over.batches(batch_size, seed, epoch):
                scale = total / float(batch.weight.sum())
                sums = Statistics.zeros(q.m.shape[0], q.m.shape[1], q.m)
                sites = rule.under(q, step)(replace(batch, weight=scale * batch.weight), sums)
                value += float(torch.dot(batch.weight, sites.value))
                rho = min(_LARGEST_STEP, (step + 2.0) ** -_EXPONENT)
                natural, q = natural.towards(base.plus(sums.precision, sums.linear), rho).posterior(centre)
                step += 1
            change = change_of_means(probe, before, q, n_members(rule))
            curve.append(elbo(value, float(gaussian.kl(q, prior).sum())))
            converged = change < tol * size_of_means(probe, q)
            if progress(Step("posterior", epoch, max_iter, curve[-1], change, state)) or converged:
                break
    except KeyboardInterrupt:
        interrupted = True
    return state()


def _run(task: Task, progress: Progress) -> Outcome:
    return _run_over(task, InMemory(task.rows), progress)


def _run_over(task: Task, all_rows: Sweepable, progress: Progress) -> Outcome:
    rows, member, start, base, settings = task
    with torch.no_grad():
        ascent = ascend(
            all_rows,
            member.rule,
            start,
            base,
            settings.batch_size,
            settings.max_iter,
            settings.tol,
            settings.seed,
            on_rows(rows, progress),
        )
    return Outcome(rows, ascent)


METHOD = Method(_run, max_iter=60, missing=needs_positive_sites, run_streamed=_run_over, in_order=True)
