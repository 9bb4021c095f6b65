"""Running chains until they have converged, and thinning them, for any sampler."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from bayesvm._core.chains import Chains, Verdict, judge
from bayesvm._core.likelihoods import Likelihood
from bayesvm._inference import coordinate, natural_adam
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.task import Ascent, Outcome, Task, needs_positive_sites, on_rows
from bayesvm._progress import Progress, Step

_WARM_UP = 100
# Draws of the latents take at most this many bytes; single precision from
# this many numbers on.
_MOST_BYTES = 512 * 2**20
_SINGLE_FROM = 4_000_000
_FEWEST_DRAWS = 20
# Latents by which convergence is tested: canonical rows come in random order.
_JUDGED_LATENTS = 300
_REPORTS = 500


class Sampler(Protocol):
    """Several chains whose states move one transition at a time."""

    @property
    def v(self) -> Tensor:
        """Whitened inducing values, shape (K, J, P)."""
        ...

    @property
    def f(self) -> Tensor:
        """Latents of the training rows, shape (K, N, J)."""
        ...

    def advance(self) -> None:
        """Make one transition in every chain."""
        ...


def is_centred(task: Task) -> bool:
    """Whether the part common to all classes may be left out of the chains."""
    return bool(coordinate.base_gaussian(task.base, task.member.rule)[1]) and task.base.linear.shape[0] > 1


def sample(task: Task, start: Callable[[Task, Ascent], Sampler], progress: Progress) -> Outcome:
    """Fit q, start chains around it and run them until they agree.

    Whenever the requested number of draws is kept, convergence is tested. If
    they have not converged, the first half of the draws is dropped as
    warm-up, every second one of the rest too, and the chains run on with
    twice the distance between draws, while ``max_iter`` transitions allow.
    What is left when they no longer do is spent at the same distance: every
    new draw takes the place of the oldest.

    Ctrl-C keeps what there is; before the first draw that is q alone.
    """
    stopped = False

    def watched(step: Step) -> bool:
        nonlocal stopped
        stopped = progress(step)
        return stopped

    with torch.no_grad():
        ascent = _variational(task, watched)
        if not stopped and not ascent.interrupted:
            ascent = _run(task, ascent, start(task, ascent), progress)
        return Outcome(task.rows, ascent)


def _variational(task: Task, progress: Progress) -> Ascent:
    """Fit q under the kernel and inducing points as they are."""
    rows, member, begin, base, settings = task
    if needs_positive_sites(member) is None:
        sweeps = min(settings.max_iter, coordinate.METHOD.max_iter)
        report = on_rows(rows, progress)
        return coordinate.ascend(rows, member.rule, begin, base, sweeps, settings.tol, report)
    epochs = min(settings.max_iter, natural_adam.METHOD.max_iter)
    fixed = replace(settings, max_iter=epochs, learn_kernel=False, learn_inducing=False)
    # Sites from learning the kernel may be negative too: q starts without them.
    return natural_adam.METHOD.run(task._replace(start=base, settings=fixed), progress).ascent


def _run(task: Task, ascent: Ascent, sampler: Sampler, progress: Progress) -> Ascent:
    rows, likelihood, settings = task.rows, task.member.likelihood, task.settings
    report, total = on_rows(rows, progress), settings.max_iter
    kept = _Kept.empty(settings.n_draws, sampler)
    every = max(1, total // _REPORTS)
    thinning, since, done, r_hat = 1, -min(_WARM_UP, total // 2), 0, math.inf
    until_verdict = kept.wanted
    interrupted = False

    def state() -> Ascent:
        now = kept if kept.v else kept.only(sampler)
        chains = now.chains(task, done, thinning)
        return ascent._replace(
            chains=chains, converged=chains.converged, n_iter=done, interrupted=interrupted
        )

    try:
        for done in range(1, total + 1):
            sampler.advance()
            since += 1
            if since == thinning:
                kept.add(sampler)
                since, until_verdict = 0, until_verdict - 1
            if until_verdict == 0:
                verdict = kept.verdict(rows, likelihood)
                r_hat = verdict.r_hat
                if verdict.converged:
                    break
                if done + 2 * thinning * kept.room_after_halving <= total:
                    until_verdict = kept.room_after_halving
                    kept.halve()
                    thinning *= 2
                else:
                    until_verdict = max(1, kept.wanted // 4)
            if done % every == 0:
                value = float((likelihood.log_likelihood(rows.y, sampler.f) @ rows.weight).mean())
                if report(Step("chains", done, total, value, r_hat - 1.0, state)):
                    break
    except KeyboardInterrupt:
        interrupted = True
    return state()


@dataclass
class _Kept:
    """The draws kept so far."""

    wanted: int
    dtype: torch.dtype
    v: list[Tensor]
    f: list[Tensor]

    @classmethod
    def empty(cls, n_draws: int, sampler: Sampler) -> _Kept:
        """A buffer for the requested draws, or as many as memory allows."""
        numbers = sampler.f.numel()
        single = n_draws * numbers > _SINGLE_FROM
        dtype = torch.float32 if single else sampler.f.dtype
        size = torch.finfo(dtype).bits // 8
        return cls(min(n_draws, max(_FEWEST_DRAWS, _MOST_BYTES // (numbers * size))), dtype, [], [])

    @property
    def room_after_halving(self) -> int:
        """How many draws would be missing."""
        return self.wanted - (self.wanted // 2 + 1) // 2

    def only(self, sampler: Sampler) -> _Kept:
        """The present state as the only draw."""
        return _Kept(self.wanted, self.dtype, [sampler.v], [sampler.f.to(self.dtype)])

    def add(self, sampler: Sampler) -> None:
        """Keep the present state of all chains, in place of the oldest if there is no room."""
        if len(self.v) == self.wanted:
            del self.v[0], self.f[0]
        self.v.append(sampler.v)
        self.f.append(sampler.f.to(self.dtype))

    def halve(self) -> None:
        """Drop the first half, and every second draw of the rest; the last one stays."""
        for draws in (self.v, self.f):
            later = draws[len(draws) - len(draws) // 2 :]
            draws[:] = later[::-1][::2][::-1]

    def verdict(self, rows: TrainingRows, likelihood: Likelihood) -> Verdict:
        """On the latents of some rows and the log-likelihood of all."""
        f = torch.stack(self.f, 1)
        some = f[:, :, : max(1, _JUDGED_LATENTS // f.shape[-1])].flatten(2)
        total = log_likelihoods(likelihood, rows.y, f) @ rows.weight.to(f.dtype)
        return judge(torch.cat([some, total[..., None]], 2), self.wanted)

    def chains(self, task: Task, steps: int, thinning: int) -> Chains:
        """The draws so far as a result."""
        rows, likelihood = task.rows, task.member.likelihood
        f = torch.stack(self.f, 1)
        return Chains(
            v=torch.stack(self.v, 1),
            f=f,
            log_likelihood=log_likelihoods(likelihood, rows.y, f),
            verdict=self.verdict(rows, likelihood),
            steps=steps,
            thinning=thinning,
            centred=is_centred(task),
            fitc=task.settings.fitc,
        )


def log_likelihoods(likelihood: Likelihood, y: Tensor, f: Tensor) -> Tensor:
    """Of every row at draws f (K, S, N, J), shape (K, S, N), one draw of all chains at a time."""
    return torch.stack([likelihood.log_likelihood(y, draw) for draw in f.unbind(1)], 1)
