"""Coordinate ascent: full sweeps over the rows, damped so that the bound rises (section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bayesvm._core import gaussian
from bayesvm._core.elbo import elbo
from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._core.linalg import NotPositiveDefiniteError
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.rivals import RivalRule, n_members
from bayesvm._inference.task import (
    Ascent,
    InMemory,
    Method,
    Outcome,
    PassResult,
    Sites,
    Sweepable,
    Task,
    evaluate,
    needs_positive_sites,
    on_rows,
)
from bayesvm._progress import Progress, Step

# Rows on which the change of the latent means is measured: canonical rows
# come in random order, so the first ones are a fair sample.
_PROBE_ROWS = 512
_FIRST_STEP = 0.5
_SMALLEST_STEP = 1.0 / 64.0
_GROWTH = 1.4
# A bound that falls by less than this share is rounding and quadrature error.
_BOUND_SLACK = 1e-7
# The bound has settled when a full step gains less than this many nats a
# row, for a tolerance of one. Rows far beyond their margin leave the means
# free to drift long after that.
_BOUND_SHARE = 1e-3
_BURN_IN = 10
# The first of these sweeps need not use every row: a random subset gives nearly
# the same q, and the last ones correct it.
_SAMPLED_BURN_IN = 8
_SAMPLE_SHARE = 8
_FEWEST_SAMPLED = 4096
_MIN_AVERAGED = 8
# Averaged sweeps; the sites of each are kept, so fewer where rows are many.
_MAX_AVERAGED = 40
_MAX_AVERAGED_LARGE = 12
_LARGE_ROWS = 100_000


def ascend(
    rows: TrainingRows | Sweepable,
    rule: RivalRule,
    start: Natural,
    base: Natural,
    max_iter: int,
    tol: float,
    progress: Progress,
) -> Ascent:
    """Sweep until the class-centred latent means stop changing (eqs. 3.1, 3.4).

    Ctrl-C ends the ascent with the best q so far.

    Parameters
    ----------
    rows, rule, start : what to fit, how sites are computed, the initial q
    base : Natural
        What q is without these rows: the prior, or the prior and the sites of forgotten rows.
    max_iter : int
        Most sweeps.
    tol : float
        Converged when the RMS change of the means, for a full step, is below
        this share of their size, or the bound has settled.
    progress : Progress
    """
    run = _averaged if rule.averaged else _safeguarded
    over = InMemory(rows) if isinstance(rows, TrainingRows) else rows
    return run(over, rule, start, base, max_iter, tol, progress)


def probe_features(rows: TrainingRows) -> Tensor:
    """Features of the rows on which change is measured."""
    return next(rows.blocks(_PROBE_ROWS)).features.A


def change_of_means(probe: Tensor, before: Gaussian, after: Gaussian, n_members: int = 1) -> float:
    """RMS change of the class-centred latent means on the probe rows, of the member that changed most."""
    delta = ((after.m - before.m) @ probe.mT).unflatten(0, (n_members, -1))
    if delta.shape[1] > 1:
        delta = delta - delta.mean(1, keepdim=True)
    return float(delta.square().mean((1, 2)).amax().sqrt())


def size_of_means(probe: Tensor, q: Gaussian) -> float:
    """RMS of the latent means on the probe rows, at least the margin, which is one."""
    return max(1.0, float((q.m @ probe.mT).square().mean().sqrt()))


# Relative distance of the means beyond which q and the Gaussian of its own sites count as different.
_FARTHEST = 0.5


def gaussian_of_sites(rows: TrainingRows, q: Gaussian, target: Natural) -> tuple[Gaussian | None, bool]:
    """What the sites at q make, one natural step of length one from it, and whether that is near q.

    More steps would lead to the optimum, which is another q where q is not one.
    None where sites of negative precision make no Gaussian.
    """
    try:
        _, of_sites = target.posterior()
    except NotPositiveDefiniteError:
        return None, False
    probe = probe_features(rows)
    return of_sites, change_of_means(probe, q, of_sites) <= _FARTHEST * size_of_means(probe, q)


def _safeguarded(
    rows: Sweepable,
    rule: RivalRule,
    start: Natural,
    base: Natural,
    max_iter: int,
    tol: float,
    progress: Progress,
) -> Ascent:
    """Deterministic sites and a true bound: a step that lowers the bound is halved."""
    prior, centre = base_gaussian(base, rule)
    natural, q = start.posterior(centre)
    now: PassResult | None = None
    curve, probe, rho = list[float](), probe_features(rows.sample), _FIRST_STEP
    enough = tol * _BOUND_SHARE * rows.total_weight
    converged = interrupted = False
    sweep = 0

    def state() -> Ascent:
        found = evaluate(rows.sample, rule, q, base, 0) if now is None else now
        # A row that weighs much moves q by more than the tolerance, and its site is not the one in q.
        of_sites = None if now is None else gaussian_of_sites(rows.sample, q, found.target)[0]
        return Ascent(q, natural, found.sites, curve, sweep, converged, interrupted, site_gaussian=of_sites)

    try:
        now = rows.evaluate(rule, q, base, 0)
        bound = elbo(now.value, float(gaussian.kl(q, prior).sum()))
        curve.append(bound)
        for sweep in range(1, max_iter + 1):
            moved, new_q = natural.towards(now.target, rho).posterior(centre)
            after = rows.evaluate(rule, new_q, base, sweep)
            new_bound = elbo(after.value, float(gaussian.kl(new_q, prior).sum()))
            change = change_of_means(probe, q, new_q, n_members(rule)) / rho
            if not new_bound >= bound - _BOUND_SLACK * abs(bound):
                if rho <= _SMALLEST_STEP:
                    converged = change < tol
                    break
                rho *= 0.5
                continue
            gain = new_bound - bound
            natural, q, now, bound = moved, new_q, after, new_bound
            curve.append(bound)
            converged = change < tol * size_of_means(probe, q) or 0.0 <= gain < enough * rho
            if progress(Step("posterior", sweep, max_iter, bound, change, state)) or converged:
                break
            # A step that gained nothing circles around the optimum: shorten it.
            rho = min(1.0, _GROWTH * rho) if gain > 0.0 else max(_SMALLEST_STEP, 0.5 * rho)
    except KeyboardInterrupt:
        interrupted = True
    return state()


def base_gaussian(base: Natural, rule: RivalRule) -> tuple[Gaussian, int]:
    """The Gaussian q starts from, and for how many members means may be centred.

    For none, which is zero, unless the rows see differences only and the base is the prior.
    """
    plain = Natural.prior(base.linear.shape[0], base.precision)
    if bool(base.linear.any()) or not torch.equal(base.precision, plain.precision):
        return gaussian.from_natural(base.precision, base.linear), 0
    # The identity is its own factor, and one serves for all classes.
    centre = n_members(rule) if rule.shift_invariant else 0
    return Gaussian(plain.linear, plain.precision, plain.precision), centre


def _averaged(
    rows: Sweepable,
    rule: RivalRule,
    start: Natural,
    base: Natural,
    max_iter: int,
    tol: float,
    progress: Progress,
) -> Ascent:
    """Rivals that move between sweeps: damp, then average the last sweeps' sites.

    Sweeps go on from a damped q while what they ask for is averaged beside
    it, from the first averaged sweep on: the result is exactly the posterior
    of the averaged sites. To continue from the average itself would begin with a
    full step, which was seen to diverge on ``poker``.
    """
    prior, centre = base_gaussian(base, rule)
    walk = natural = start
    _, q = start.posterior(centre)
    curve: list[float] = []
    in_memory = rows.sample
    average = _Average(torch.zeros_like(in_memory.weight), torch.zeros_like(in_memory.weight))
    probe = probe_features(in_memory)
    converged = interrupted = False
    most = _MAX_AVERAGED if len(in_memory) <= _LARGE_ROWS else _MAX_AVERAGED_LARGE
    burn_in = min(_BURN_IN, max(0, max_iter - _MIN_AVERAGED))
    subset = rows.first(max(_FEWEST_SAMPLED, rows.n_rows // _SAMPLE_SHARE))

    def state() -> Ascent:
        _, of_sites = natural.posterior()
        if average.rivals:
            sites = average.sites(in_memory.y)
        else:
            sites = evaluate(in_memory, rule, q, base, max_iter).sites
        return Ascent(of_sites, natural, sites, curve, len(curve), converged, interrupted)

    try:
        for sweep in range(1, max_iter + 1):
            early = sweep <= min(burn_in, _SAMPLED_BURN_IN)
            now = (subset if early else rows).evaluate(rule, q, base, sweep)
            averaged = max(0, sweep - burn_in)
            curve.append(elbo(now.value, float(gaussian.kl(q, prior).sum())))
            walk = walk.towards(now.target, min(_FIRST_STEP, 1.0 / (1.0 + averaged)))
            _, new_q = walk.posterior(centre)
            change = change_of_means(probe, q, new_q)
            q = new_q
            # The average itself stays uncentred: it is what the sites make.
            natural = natural.towards(now.target, 1.0 / averaged) if averaged else walk
            if averaged:
                average.add(now.sites)
                converged = averaged >= _MIN_AVERAGED and change < tol * size_of_means(probe, q)
            stop = progress(Step("posterior", sweep, max_iter, curve[-1], change, state))
            if stop or converged or averaged == most:
                break
    except KeyboardInterrupt:
        interrupted = True
    return state()


@dataclass
class _Average:
    """Running mean of pair sites: own class summed up, the rivals of every sweep kept."""

    W_y: Tensor
    G_y: Tensor
    rivals: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    def add(self, sites: Sites) -> None:
        """Take in the sites of one more sweep."""
        assert sites.classes is not None
        self.W_y += sites.W[:, 0]
        self.G_y += sites.G[:, 0]
        rival = sites.classes[:, 1].to(torch.int32)
        self.rivals.append((rival, sites.W[:, 1].clone(), sites.G[:, 1].clone()))

    def sites(self, y: Tensor) -> Sites:
        """The mean: own class once, then the rivals of every sweep."""
        n = len(self.rivals)
        classes = torch.stack([y.to(torch.int32), *(t for t, _, _ in self.rivals)], 1)
        W = torch.stack([self.W_y, *(w for _, w, _ in self.rivals)], 1)
        G = torch.stack([self.G_y, *(g for _, _, g in self.rivals)], 1)
        return Sites(classes, W.div_(n), G.div_(n))


def _run(task: Task, progress: Progress) -> Outcome:
    return _run_over(task, InMemory(task.rows), progress)


def _run_over(task: Task, all_rows: Sweepable, progress: Progress) -> Outcome:
    rows, member, start, base, settings = task
    report = on_rows(rows, progress)
    with torch.no_grad():
        ascent = ascend(all_rows, member.rule, start, base, settings.max_iter, settings.tol, report)
    return Outcome(rows, ascent)


METHOD = Method(_run, max_iter=60, missing=needs_positive_sites, run_streamed=_run_over)
