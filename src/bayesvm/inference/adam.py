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
from bayesvm.core.likelihoods import Likelihood, expected
from bayesvm.inference.blocks import TrainingRows
from bayesvm.inference.coordinate import base_gaussian
from bayesvm.inference.draws import Draws, drawn_argmax, mean_argmax
from bayesvm.inference.epochs import LARGEST_LOGARITHM, recent_gain, shuffled
from bayesvm.inference.evaluate import Ascent, evaluate
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.optimiser import Adam
from bayesvm.inference.pair_bound import pair_bound
from bayesvm.inference.rivals import MIN_VARIANCE, AllRivals, OneRival, RivalRule
from bayesvm.inference.task import Member, Method, Outcome, Settings, Task
from bayesvm.progress import Progress, Step

__all__ = ["METHOD", "PAPER_EPOCHS", "PAPER_RATE", "ascend"]

PAPER_RATE = 5e-4
PAPER_EPOCHS = 1000


def ascend(
    rows: TrainingRows,
    rule: RivalRule,
    start: Natural,
    settings: Settings,
    progress: Progress,
    base: Natural | None = None,
) -> Outcome:
    r"""Maximise the minibatch bound over m, S = L_S L_S^T, kernel parameters and Z at once.

    Converged when the mean bound of ten epochs no longer exceeds that of the
    ten before by more than ``tol`` nats a row. ``base`` is what q is without
    the rows; None: the prior.
    """
    prior = Natural.prior(start.linear.shape[0], rows.Lz)
    base = prior if base is None else base
    without, centre = base_gaussian(base, rule)
    is_prior = torch.equal(base.precision, prior.precision) and not bool(base.linear.any())
    taught = None if is_prior else without
    _, q = start.posterior(centre)
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
            sites = evaluate(now, rule, q, base, step).sites
        return Outcome(now, Ascent(q, Natural.of(q), sites, curve, len(curve), converged, interrupted))

    try:
        for epoch in range(1, settings.max_iter + 1):
            order = shuffled(len(rows), settings.seed, epoch, rows.X.device)
            bounds = []
            last = [p.detach().clone() for p in free]
            for index in order.split(settings.batch_size):
                weight = rows.weight[index]
                bound = _minibatch_bound(
                    rows, rule, theta, Z, m, raw, taught, index, weight, total / weight.sum(), step
                )
                adam.ascend(bound, rate)
                bounds.append(bound.detach() * (weight.sum() / total))
                step += 1
            epoch_bound = float(torch.stack(bounds).sum())
            if not math.isfinite(epoch_bound) or float(raw.detach().abs().max()) > LARGEST_LOGARITHM:
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
    p: Gaussian | None,
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
    return scale * torch.dot(weight, value) - _divergence(m, raw, L, p)


def _divergence(m: Tensor, raw: Tensor, L: Tensor, p: Gaussian | None) -> Tensor:
    """KL(q || p) of all functions, for q with covariances L L^T; None: the prior (eq. 1.5)."""
    log_det = raw.diagonal(dim1=-2, dim2=-1).sum()
    if p is None:
        return 0.5 * (L.square().sum() + m.square().sum() - m.numel()) - log_det
    trace = (p.R.mT @ L).square().sum()
    distance = (p.R.mT @ (m - p.m).unsqueeze(-1)).square().sum()
    return 0.5 * (trace + distance - m.numel()) - log_det - p.R.diagonal(dim1=-2, dim2=-1).log().sum()


def _all_value(likelihood: Likelihood, features: Features, m: Tensor, L: Tensor, y: Tensor) -> Tensor:
    V = torch.einsum("np,jpq->njq", features.A, L).square().sum(-1)
    s2 = (V + features.residual[:, None]).clamp_min(MIN_VARIANCE)
    return expected(likelihood, y, features.A @ m.mT, s2).value


def _pair_value(
    rule: OneRival, features: Features, m: Tensor, L: Tensor, y: Tensor, key: Tensor, step: int
) -> Tensor:
    with torch.no_grad():
        if rule.sampled:
            rival = drawn_argmax(Draws.of_factor(m, L, rule.seed, step), features, y, key)
        else:
            rival = mean_argmax(m, features.A, y)
    return pair_bound(features, m, L, torch.stack([y, rival], 1))


def _missing(member: Member) -> str | None:
    if isinstance(member.rule, AllRivals | OneRival):
        return None
    name = type(member.rule).__name__
    return f"sites from exact expectations or from one rival a row, and {name} makes others"


def _run(task: Task, progress: Progress) -> Outcome:
    return ascend(task.rows, task.member.rule, task.start, task.settings, progress, task.base)


METHOD = Method(_run, max_iter=PAPER_EPOCHS, learns_kernel=True, missing=_missing)
