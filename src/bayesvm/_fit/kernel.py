"""Learning kernel parameters by the bound, leave-one-out or both, with q updated at every step.

One step recomputes q from fixed sites under the new kernel, scores it, moves
the parameters by Adam and refreshes the sites from the same quadrature
(section 5): one sweep over the rows per step, and no inner loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._core.elbo import elbo
from bayesvm._core.features import Features, FeaturesOfRows
from bayesvm._core.gaussian import Natural
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.kernels.compose import deviation_scales
from bayesvm._core.likelihoods.base import Likelihood, expected, per_class_moments
from bayesvm._core.linalg import NotPositiveDefiniteError
from bayesvm._core.predictive import log_softmax_pairwise
from bayesvm._core.sites import cavity, dense_statistics, posterior_moments, ridge_sites, ridge_target
from bayesvm._fit import defaults
from bayesvm._inference.adam import Adam
from bayesvm._inference.rivals import MIN_VARIANCE
from bayesvm._progress import Progress, Step

# --- The rows that the kernel is learned from: few enough to be fast, chosen by content.


class LearningSample(NamedTuple):
    """A sample of the rows for learning the kernel.

    Attributes
    ----------
    X, y, weight, unit : Tensor
        Rows, class indices among the sample's classes, their own weights, and what is left out of these.
    scale : float
        How many rows each one represents.
    n_classes : int
    """

    X: Tensor
    y: Tensor
    weight: Tensor
    unit: Tensor
    scale: float
    n_classes: int


def learning_sample(
    X: Tensor,
    y: Tensor,
    weight: Tensor,
    unit: Tensor,
    n_classes: int,
    n_rows: int | None = None,
    total_weight: float | None = None,
) -> LearningSample:
    """The first canonical rows: a random sample, since their order is a hash of their content.

    With many classes, rows of some of them only: the kernel is shared by
    all, and exact rivals cost in proportion to their number.

    Parameters
    ----------
    X, y, weight, unit, n_classes : canonical rows
    n_rows, total_weight : int and float, or None
        Of all rows, where these are the first of them; None: they are all.
    """
    dtype = defaults.LEARNING_DTYPE
    n, most = defaults.sizes(n_rows or X.shape[0]).learning_rows, defaults.LEARNING_CLASSES
    if n_classes > most:
        chosen = torch.unique(y[:n])[:most]
        index = torch.isin(y, chosen).nonzero()[:n, 0]
        labels = torch.searchsorted(chosen, y[index])
        columns = X[index].to(dtype), labels, weight[index].to(dtype), unit[index].to(dtype)
        return LearningSample(*columns, 1.0, int(chosen.numel()))
    total = weight.sum() if total_weight is None else total_weight
    scale = float(total / weight[:n].sum())
    columns = X[:n].to(dtype), y[:n], weight[:n].to(dtype), unit[:n].to(dtype)
    return LearningSample(*columns, scale, n_classes)


@dataclass(frozen=True)
class LearningOptions:
    """How kernel parameters are learned.

    Attributes
    ----------
    bound_weight, loo_weight : float
        The objective is their combination of the bound and of the
        leave-one-out log-likelihood (eq. 5.4).
    steps : int
    rate : float
        Adam's rate; it falls linearly over the second half.
    damping : float
        Step of the sites towards their new values.
    learn_inducing : bool
        Whether Z moves too.
    level_scale : float
        Standard deviation of the normal prior on the level of every kernel
        parameter around its start (eq. 5.9); most are logarithms, so 1 allows
        factors of e.
    """

    bound_weight: float
    loo_weight: float
    steps: int
    rate: float
    damping: float
    learn_inducing: bool
    level_scale: float


@dataclass(frozen=True)
class Learned:
    """Kernel parameters, inducing points and the q that came with them."""

    params: Params
    Z: Tensor
    natural: Natural
    curve: list[float]
    interrupted: bool

    def to(self, dtype: torch.dtype) -> Learned:
        """The same in another precision."""
        return replace(
            self,
            params={k: v.to(dtype) for k, v in self.params.items()},
            Z=self.Z.to(dtype),
            natural=Natural(self.natural.precision.to(dtype), self.natural.linear.to(dtype)),
        )


def learn_kernel(
    kernel: Kernel,
    params: Params,
    Z: Tensor,
    sample: LearningSample,
    likelihood: Likelihood,
    options: LearningOptions,
    progress: Progress,
) -> Learned:
    """Move the kernel parameters (and Z) uphill for a number of steps (eqs. 5.4, 5.5, 5.9).

    A step with a non-finite result or a failed factorisation ends the learning
    with the last parameters that worked; so does Ctrl-C.
    """
    X = sample.X
    theta = {k: v.detach().to(X, copy=True).requires_grad_() for k, v in params.items()}
    points = Z.detach().to(X, copy=True).requires_grad_(options.learn_inducing)
    log_T = X.new_tensor(math.log(2.0)).requires_grad_()
    adam = Adam([*theta.values(), log_T, *([points] if options.learn_inducing else [])], betas=(0.9, 0.95))
    n_latents = likelihood.n_latents(sample.n_classes)
    W, G = ridge_sites(ridge_target(sample.y, n_latents, likelihood.shift_invariant, X))
    # Leaving out also removes the rows that a row represents: otherwise its label would leak.
    unit = sample.scale * sample.unit[:, None]
    features = FeaturesOfRows(kernel, X, points)
    scales = deviation_scales(kernel, theta)
    good = _snapshot(theta, points)
    start = good[0]
    curve: list[float] = []
    interrupted = False

    def state() -> Learned:
        params, Z = good
        c = sample.scale * sample.weight[:, None]
        with torch.no_grad():
            A, _ = features(params, Z)
            precision, linear = dense_statistics(A, c * W, c * G)
            eye = torch.eye(Z.shape[0], dtype=Z.dtype, device=Z.device)
        return Learned(params, Z, Natural(precision + eye, linear), curve, interrupted)

    try:
        for step in range(options.steps):
            score = _score(features(theta, points), sample, unit, likelihood, W, G, log_T, options)
            objective = score.objective
            for name, value in theta.items():
                objective = objective + log_prior(value - start[name], options.level_scale, scales[name])
            if not bool(torch.isfinite(objective)):
                break
            good = _snapshot(theta, points)
            adam.ascend(objective, options.rate * min(1.0, 2.0 * (1.0 - step / options.steps) + 0.05))
            W.lerp_(score.W, options.damping)
            G.lerp_(score.G, options.damping)
            curve.append(score.bound)
            change = abs(curve[-1] - curve[-2]) / max(1.0, abs(curve[-1])) if step else math.inf
            if progress(Step("kernel", step + 1, options.steps, curve[-1], change, state)):
                break
    except KeyboardInterrupt:
        interrupted = True
    except NotPositiveDefiniteError:
        pass
    return state()


def log_prior(moved: Tensor, level_scale: float, deviation_scale: float) -> Tensor:
    r"""Log density of how far a kernel parameter is from its start, up to a constant (eq. 5.9).

    .. math:: \log p(\theta) = -\frac{c^2}{2 \sigma^2}
              - \sum_d \log\Bigl( 1 + \frac{e_d^2}{\tau^2} \Bigr), \quad
              c = \frac{1}{D} \sum_d (\theta_d - \theta_d^0), \quad e_d = \theta_d - \theta_d^0 - c

    Parameters
    ----------
    moved : Tensor
        :math:`\theta - \theta^0`; a single number is all level.
    level_scale, deviation_scale : float
        Standard deviation :math:`\sigma` of the level, Cauchy scale :math:`\tau` of the rest.
    """
    # All rows inform the level, few the deviation of a single column. A normal prior with 0.7 for
    # every entry overfits columns of noise (27 shapes of noise, before and after: estimated
    # accuracy .127 and .046 above the true one, .035 that of class frequencies); a normal narrow
    # enough to prevent that also shrinks the one informative column of forty. Heavy tails cost a
    # column some nats for deviating, and then hardly more.
    level = moved.mean()
    unusual = ((moved - level) / deviation_scale).square().log1p().sum()
    return -0.5 * (level / level_scale).square() - unusual


def _snapshot(theta: Params, points: Tensor) -> tuple[Params, Tensor]:
    return {k: v.detach().clone() for k, v in theta.items()}, points.detach().clone()


class _Score(NamedTuple):
    """The objective (without the prior on the parameters), the bound, and the sites to move to."""

    objective: Tensor
    bound: float
    W: Tensor
    G: Tensor


def _score(
    features: Features,
    sample: LearningSample,
    unit: Tensor,
    likelihood: Likelihood,
    W: Tensor,
    G: Tensor,
    log_T: Tensor,
    options: LearningOptions,
) -> _Score:
    """Bound and leave-one-out of the q that the sites make under the kernel (eq. 5.4)."""
    y = sample.y
    weight = sample.scale * sample.weight
    c = weight[:, None]
    A, residual = features
    F, V, kl, _ = posterior_moments(A, c * W, c * G)
    s2 = (V + residual[:, None]).clamp_min(MIN_VARIANCE)
    terms = expected(likelihood, y, F, s2)
    bound = elbo(torch.dot(weight, terms.value), kl)
    objective = options.bound_weight * bound
    if options.loo_weight:
        left = cavity(F, V, W * unit, G * unit)
        F_loo, s2_loo = per_class_moments(left.F, left.V + residual[:, None])
        log_p = log_softmax_pairwise(F_loo, s2_loo, log_T.exp()).gather(1, y[:, None])[:, 0]
        objective = objective + options.loo_weight * torch.dot(weight, log_p)
    with torch.no_grad():
        return _Score(objective, float(bound), terms.W, terms.slope + terms.W * F)


# --- Choosing inducing points: weighted k-means on a content-keyed sample.


_ROWS_PER_POINT = 32
_LLOYD_STEPS = 10


def distinct_rows(X: Tensor) -> Tensor:
    """Indices of the first occurrence of every distinct row, in order."""
    _, inverse = torch.unique(X, dim=0, return_inverse=True)
    n = int(inverse.max()) + 1
    position = torch.arange(X.shape[0], device=X.device)
    first = position.new_full((n,), X.shape[0]).scatter_reduce_(0, inverse, position, "amin")
    return first.sort().values


def choose_inducing(X: Tensor, weight: Tensor, n_inducing: int) -> Tensor:
    """Inducing points for canonical rows, shape (P, D) with P <= ``n_inducing``.

    All distinct rows if there are that few, and the sparse model is then the
    dense one; otherwise centres of weighted k-means. Canonical rows come in
    random order, so the first ones are a random sample and a random start.
    """
    sample, w = (
        X[: max(4096, _ROWS_PER_POINT * n_inducing)],
        weight[: max(4096, _ROWS_PER_POINT * n_inducing)],
    )
    distinct = distinct_rows(sample)
    Z = sample[distinct[:n_inducing]].clone()
    if distinct.numel() <= n_inducing:
        return Z
    norm = sample.square().sum(1)
    for _ in range(_LLOYD_STEPS):
        # |x|^2 is the same for all centres, so it plays no part in the choice;
        # rounding keeps exact ties exact whatever the order of summation.
        score = torch.addmm(Z.square().sum(1), sample, Z.mT, alpha=-2.0).add_(norm[:, None])
        nearest = torch.round(score, decimals=9).argmin(1)
        mass = torch.zeros(Z.shape[0], dtype=X.dtype, device=X.device).index_add_(0, nearest, w)
        total = torch.zeros_like(Z).index_add_(0, nearest, sample * w[:, None])
        Z = torch.where(mass[:, None] > 0, total / mass.clamp_min(torch.finfo(X.dtype).tiny)[:, None], Z)
    return Z
