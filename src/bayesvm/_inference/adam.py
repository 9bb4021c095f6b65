"""Adam, and the paper's recipe: q, kernel and inducing points together, by Adam on minibatches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bayesvm._core import linalg
from bayesvm._core.elbo import elbo
from bayesvm._core.features import Features, inducing_factor, whitened_features
from bayesvm._core.gaussian import Gaussian, Natural, kl_of_factor
from bayesvm._core.kernels.base import Params
from bayesvm._core.likelihoods import Likelihood, expected, pair_bound, with_gradient
from bayesvm._inference.blocks import LARGEST_LOGARITHM, TrainingRows, recent_gain, shuffled
from bayesvm._inference.coordinate import base_gaussian, gaussian_of_sites
from bayesvm._inference.rivals import (
    MIN_VARIANCE,
    AllRivals,
    Draws,
    OneRival,
    RivalRule,
    drawn_argmax,
    mean_argmax,
)
from bayesvm._inference.task import Ascent, Member, Method, Outcome, Settings, Task, evaluate
from bayesvm._progress import Progress, Step

# --- The optimiser, which other methods and the learning of the kernel use too.


class Adam:
    """Adam (Kingma and Ba, 2015) over a list of leaf tensors.

    torch.optim's own pulls in the compiler on its first use, which takes
    longer than most fits here (measured: 1.2 s against 0.2 s).
    """

    def __init__(
        self, params: Sequence[Tensor], betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8
    ) -> None:
        self._params = list(params)
        self._betas = betas
        self._epsilon = epsilon
        self._first = [torch.zeros_like(p) for p in self._params]
        self._second = [torch.zeros_like(p) for p in self._params]
        self._step = 0

    def ascend(self, objective: Tensor, rate: float) -> None:
        """One step uphill."""
        self.along(torch.autograd.grad(objective, self._params, allow_unused=True), rate)

    def along(self, grads: Sequence[Tensor | None], rate: float) -> None:
        """One step along given gradients, in the order of the parameters."""
        self._step += 1
        b1, b2 = self._betas
        size = rate * math.sqrt(1.0 - b2**self._step) / (1.0 - b1**self._step)
        with torch.no_grad():
            for p, g, m, v in zip(self._params, grads, self._first, self._second, strict=True):
                if g is None:
                    continue
                m.lerp_(g, 1.0 - b1)
                v.mul_(b2).addcmul_(g, g, value=1.0 - b2)
                p.addcdiv_(m, v.sqrt().add_(self._epsilon), value=size)


# --- Variances of the two classes that a row touches, with their gradient in closed form.


# All classes in one product, up to this many multiplications more than
# needed, where sorting the rows by class would synchronise with the device.
_DENSE_WORK = {"cuda": 4e9}


class _PairVariance(torch.autograd.Function):
    """(A, L, classes) -> |L_j^T a_n|^2, shape (N, 2): only the two classes that a row touches cost P^2.

    A graph over the products of every class took longer than the products
    themselves where rows are few.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, L: Tensor, classes: Tensor) -> Tensor:
        (N, P), C = A.shape, L.shape[0]
        ctx.dense = _DENSE_WORK.get(A.device.type, 0.0) >= (C - 2.0) * N * P**2
        if ctx.dense:
            B = A @ L
            ctx.save_for_backward(A, L, classes, B)
            return torch.linalg.vecdot(B, B).mT.gather(1, classes)
        label, order = classes.reshape(-1).sort(stable=True)
        ctx.counts = torch.bincount(label, minlength=C).tolist()
        row = order.div(2, rounding_mode="floor")
        touching = A.index_select(0, row)
        B = torch.empty_like(touching)
        for A_j, L_j, B_j in zip(touching.split(ctx.counts), L.unbind(), B.split(ctx.counts), strict=True):
            torch.mm(A_j, L_j, out=B_j)
        ctx.save_for_backward(A, L, classes, B, touching, order)
        return A.new_empty(2 * N).scatter_(0, order, torch.linalg.vecdot(B, B)).view(N, 2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gV = 2.0 * grads[0]
        A, L, classes, B, *groups = ctx.saved_tensors
        (N, P), C = A.shape, L.shape[0]
        if ctx.dense:
            T = A.new_zeros(N, C).scatter_(1, classes, gV).mT[:, :, None] * B
            gA = T.transpose(0, 1).reshape(N, C * P) @ L.mT.reshape(C * P, P)
            return gA, A.mT @ T, None
        touching, order = groups
        T = gV.reshape(-1).index_select(0, order)[:, None] * B
        gL, back = torch.zeros_like(L), torch.empty_like(T)
        parts = (touching.split(ctx.counts), T.split(ctx.counts), back.split(ctx.counts))
        for A_j, T_j, back_j, L_j, gL_j in zip(*parts, L.unbind(), gL.unbind(), strict=True):
            torch.mm(A_j.mT, T_j, out=gL_j)
            torch.mm(T_j, L_j.mT, out=back_j)
        row = order.div(2, rounding_mode="floor")
        return torch.zeros_like(A).index_add_(0, row, back), gL, None


def pair_value(features: Features, m: Tensor, L: Tensor, classes: Tensor) -> Tensor:
    """Row terms against the rivals, shape (N,), differentiable in features, m and L (eq. 2.3).

    Parameters
    ----------
    features : Features
    m : Tensor of shape (C, P)
    L : Tensor of shape (C, P, P)
        Factors of the covariances, S_j = L_j L_j^T.
    classes : Tensor of shape (N, 2)
        Own class and rival.
    """
    A, residual = features
    V: Tensor = _PairVariance.apply(A, L, classes)  # type: ignore[no-untyped-call]
    s2 = (V + residual[:, None]).clamp_min(MIN_VARIANCE)
    return with_gradient(pair_bound, (A @ m.mT).gather(1, classes), s2).value


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
    forgotten = None if is_prior else without
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
            found = evaluate(now, rule, q, base, step)
            of_sites, near = gaussian_of_sites(now, q, found.target)
        return Outcome(
            now,
            Ascent(
                q,
                Natural.of(q),
                found.sites,
                curve,
                len(curve),
                converged,
                interrupted,
                site_gaussian=of_sites,
                loo_valid=near,
            ),
        )

    try:
        for epoch in range(1, settings.max_iter + 1):
            order = shuffled(len(rows), settings.seed, epoch, rows.X.device)
            bounds = []
            last = [p.detach().clone() for p in free]
            for index in order.split(settings.batch_size):
                weight = rows.weight[index]
                bound = _minibatch_bound(
                    rows, rule, theta, Z, m, raw, forgotten, index, weight, total / weight.sum(), step
                )
                adam.ascend(bound, rate)
                bounds.append(bound.detach() * (weight.sum() / total))
                step += 1
            epoch_bound = float(torch.stack(bounds).sum())
            if not math.isfinite(epoch_bound) or float(raw.detach().abs().max()) > LARGEST_LOGARITHM:
                raise ArithmeticError("q overflowed")
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
        value = _one_value(rule, features, m, L, y, rows.key[index], step)
    else:
        assert isinstance(rule, AllRivals)
        value = _all_value(rule.likelihood, features, m, L, y)
    return elbo(torch.dot(weight, value), kl_of_factor(m, L, p).sum(), scale)


def _all_value(likelihood: Likelihood, features: Features, m: Tensor, L: Tensor, y: Tensor) -> Tensor:
    V = torch.einsum("np,jpq->njq", features.A, L).square().sum(-1)
    s2 = (V + features.residual[:, None]).clamp_min(MIN_VARIANCE)
    return expected(likelihood, y, features.A @ m.mT, s2).value


def _one_value(
    rule: OneRival, features: Features, m: Tensor, L: Tensor, y: Tensor, key: Tensor, step: int
) -> Tensor:
    with torch.no_grad():
        if rule.sampled:
            rival = drawn_argmax(Draws.of_factor(m, L, rule.seed, step), features, y, key)
        else:
            rival = mean_argmax(m, features.A, y)
    return pair_value(features, m, L, torch.stack([y, rival], 1))


def _missing(member: Member) -> str | None:
    if isinstance(member.rule, AllRivals | OneRival):
        return None
    name = type(member.rule).__name__
    return f"sites from exact expectations or from one rival a row, and {name} makes others"


def _run(task: Task, progress: Progress) -> Outcome:
    return ascend(task.rows, task.member.rule, task.start, task.settings, progress, task.base)


# q differs a little from the Gaussian of its sites: a mixing from leave-one-out would fit the difference.
METHOD = Method(_run, max_iter=PAPER_EPOCHS, learns_kernel=True, missing=_missing, mean_decides=True)
