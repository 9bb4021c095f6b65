"""The paper's recipe: q, kernel and inducing points together, by Adam on minibatches."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from bayesvm.core import linalg
from bayesvm.core.covariance import Features, inducing_factor, whitened_features
from bayesvm.core.gaussian import Gaussian
from bayesvm.core.kernels.base import Params
from bayesvm.core.likelihoods import Likelihood, augmented_pair, expected
from bayesvm.inference.blocks import TrainingRows
from bayesvm.inference.draws import Draws, drawn_argmax, mean_argmax
from bayesvm.inference.evaluate import Ascent, evaluate
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.optimiser import Adam
from bayesvm.inference.rivals import MIN_VARIANCE, AllRivals, OneRival, RivalRule
from bayesvm.inference.task import Method, Outcome, Settings, Task
from bayesvm.progress import Progress, Step

__all__ = ["METHOD", "PAPER_EPOCHS", "PAPER_RATE", "ascend", "recent_gain"]

PAPER_RATE = 5e-4
PAPER_EPOCHS = 1000
_RECENT_EPOCHS = 10
# Standard deviations beyond exp(this) either way are a divergence, not a fit.
_LARGEST_PARAMETER = 50.0


def ascend(
    rows: TrainingRows, rule: RivalRule, start: Natural, settings: Settings, progress: Progress
) -> Outcome:
    r"""Maximise the minibatch bound over m, S = L_S L_S^T, kernel parameters and Z at once.

    Converged when the mean bound of ten epochs no longer exceeds that of the
    ten before by more than ``tol`` nats a row.
    """
    _, q = start.posterior(rule.shift_invariant)
    covariance = torch.cholesky_inverse(q.R)
    m = q.m.clone().requires_grad_()
    factor = linalg.cholesky(covariance)
    raw = (factor.tril(-1) + torch.diag_embed(factor.diagonal(dim1=-2, dim2=-1).log())).requires_grad_()
    theta = {k: v.clone().requires_grad_(settings.learn_kernel) for k, v in rows.params.items()}
    Z = rows.Z.clone().requires_grad_(settings.learn_inducing)
    free = [p for p in (m, raw, *theta.values(), Z) if p.requires_grad]
    adam, rate = Adam(free), settings.rate or PAPER_RATE
    total = rows.weight.sum()
    curve: list[float] = []
    converged = interrupted = False
    step = 0
    last: list[Tensor] = []

    def state() -> Outcome:
        with torch.no_grad():
            q = _gaussian(m, raw)
            params: Params = {k: v.detach().clone() for k, v in theta.items()}
            now = replace(rows, params=params, Z=Z.detach().clone())
            sites = evaluate(now, rule, q, Natural.prior(q.m.shape[0], q.R), step).sites
        return Outcome(now, Ascent(q, Natural.of(q), sites, curve, len(curve), converged, interrupted))

    try:
        for epoch in range(1, settings.max_iter + 1):
            generator = torch.Generator().manual_seed((settings.seed * 1_000_003 + epoch) % 2**63)
            order = torch.randperm(len(rows), generator=generator).to(rows.X.device)
            epoch_bound = 0.0
            last = [p.detach().clone() for p in free]
            for index in order.split(settings.batch_size):
                weight = rows.weight[index]
                bound = _minibatch_bound(
                    rows, rule, theta, Z, m, raw, index, weight, total / weight.sum(), step
                )
                adam.ascend(bound, rate)
                epoch_bound += float(bound.detach()) * float(weight.sum() / total)
                step += 1
            if not math.isfinite(epoch_bound) or float(raw.detach().abs().max()) > _LARGEST_PARAMETER:
                raise ArithmeticError("q left the range of numbers")
            curve.append(epoch_bound)
            gain = recent_gain(curve)
            converged = settings.tol > 0 and gain < settings.tol * float(total)
            if progress(Step("adam", epoch, settings.max_iter, epoch_bound, gain, state)) or converged:
                break
    except KeyboardInterrupt:
        interrupted = True
    except ArithmeticError:  # a rate that is too large: back to where the epoch began
        with torch.no_grad():
            for parameter, value in zip(free, last, strict=True):
                parameter.copy_(value)
    return state()


def recent_gain(curve: list[float]) -> float:
    """How much the mean bound of the last epochs exceeds that of the ones before."""
    if len(curve) < 2 * _RECENT_EPOCHS:
        return math.inf
    last, before = curve[-_RECENT_EPOCHS:], curve[-2 * _RECENT_EPOCHS : -_RECENT_EPOCHS]
    return (sum(last) - sum(before)) / _RECENT_EPOCHS


def _factor(raw: Tensor) -> Tensor:
    """Lower factors L_S of the covariances from unconstrained matrices."""
    return raw.tril(-1) + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())


def _gaussian(m: Tensor, raw: Tensor) -> Gaussian:
    """The Gaussian in the form the rest of the library uses."""
    L = _factor(raw.detach())
    return Gaussian(m.detach().clone(), linalg.cholesky(torch.cholesky_inverse(L)))


def _minibatch_bound(
    rows: TrainingRows,
    rule: RivalRule,
    theta: Params,
    Z: Tensor,
    m: Tensor,
    raw: Tensor,
    index: Tensor,
    weight: Tensor,
    scale: Tensor,
    step: int,
) -> Tensor:
    features = whitened_features(rows.kernel, theta, Z, inducing_factor(rows.kernel, theta, Z), rows.X[index])
    L = _factor(raw)
    y = rows.y[index]
    if isinstance(rule, OneRival):
        value = _pair_value(rule, features, m, L, y, rows.key[index], step)
    else:
        assert isinstance(rule, AllRivals)
        value = _all_value(rule.likelihood, features, m, L, y)
    kl = 0.5 * (L.square().sum() + m.square().sum() - m.numel()) - raw.diagonal(dim1=-2, dim2=-1).sum()
    return scale * torch.dot(weight, value) - kl


def _all_value(likelihood: Likelihood, features: Features, m: Tensor, L: Tensor, y: Tensor) -> Tensor:
    V = torch.einsum("np,jpq->njq", features.A, L).square().sum(-1)
    s2 = (V + features.residual[:, None]).clamp_min(MIN_VARIANCE)
    return expected(likelihood, y, features.A @ m.mT, s2).value


def _pair_value(
    rule: OneRival, features: Features, m: Tensor, L: Tensor, y: Tensor, key: Tensor, step: int
) -> Tensor:
    """Only the two classes a row touches cost P^2: one product per class with the rows that touch it.

    Gathering a factor for every row instead took ten times as long.
    """
    A, residual = features
    with torch.no_grad():
        if rule.sampled:
            rival = drawn_argmax(Draws.of_factor(m, L, rule.seed, step), features, y, key)
        else:
            rival = mean_argmax(m, A, y)
        classes = torch.stack([y, rival], 1)
        label, order = classes.reshape(-1).sort(stable=True)
        counts = torch.bincount(label, minlength=L.shape[0]).tolist()
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    touching = A.index_select(0, order.div(2, rounding_mode="floor")).split(counts)
    V = torch.cat([(A_j @ L_j).square().sum(1) for A_j, L_j in zip(touching, L.unbind(), strict=True)])
    s2 = (V.index_select(0, back).reshape(-1, 2) + residual[:, None]).clamp_min(MIN_VARIANCE)
    F = (A @ m.mT).gather(1, classes)
    return augmented_pair(F[:, 0], F[:, 1], s2[:, 0], s2[:, 1]).value


def _run(task: Task, progress: Progress) -> Outcome:
    return ascend(task.rows, task.member.rule, task.start, task.settings, progress)


METHOD = Method(_run, max_iter=PAPER_EPOCHS, learns_kernel=True)
