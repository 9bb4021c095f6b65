"""Learning kernel parameters: the bound, leave-one-out or both, while q tracks along.

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

from bayesvm.core.covariance import Features, FeaturesOfRows
from bayesvm.core.kernels.base import Kernel, Params
from bayesvm.core.leave_one_out import cavity, part_left_out
from bayesvm.core.likelihoods.base import Likelihood, expected
from bayesvm.core.linalg import NotPositiveDefiniteError
from bayesvm.core.predictive import log_softmax_pairwise
from bayesvm.core.sites import dense_statistics, posterior_moments
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.optimiser import Adam
from bayesvm.inference.rivals import MIN_VARIANCE
from bayesvm.learning_sample import LearningSample
from bayesvm.prediction import latents_of_classes
from bayesvm.progress import Progress, Step

__all__ = ["Learned", "LearningOptions", "learn_kernel", "start_sites"]

_START_PRECISION = 0.5
_START_MARGIN = 2.0


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
    prior_scale : float
        Standard deviation of a normal prior on every kernel parameter around
        its start; they are logarithms, so 1 allows factors of e.
    """

    bound_weight: float
    loo_weight: float
    steps: int
    rate: float
    damping: float
    learn_inducing: bool
    prior_scale: float


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


def start_sites(y: Tensor, n_latents: int, centred: bool, like: Tensor) -> tuple[Tensor, Tensor]:
    """Sites of a ridge regression on one-hot targets, shape (N, C) each (eq. 3.6).

    Targets are centred over the classes where only differences of latents
    matter; else they are -1 and 1.
    """
    W = like.new_full((y.shape[0], n_latents), _START_PRECISION)
    if n_latents == 1:
        target = (2 * y - 1).to(like.dtype)[:, None]
    elif not centred:
        target = like.new_full((y.shape[0], n_latents), -1.0).scatter_(1, y[:, None], 1.0)
    else:
        target = like.new_full((y.shape[0], n_latents), -_START_MARGIN / n_latents)
        target.scatter_(1, y[:, None], _START_MARGIN * (1.0 - 1.0 / n_latents))
    return W, W * target


def learn_kernel(
    kernel: Kernel,
    params: Params,
    Z: Tensor,
    sample: LearningSample,
    likelihood: Likelihood,
    options: LearningOptions,
    progress: Progress,
) -> Learned:
    """Move the kernel parameters (and Z) uphill for a number of steps.

    A step that leaves the finite or breaks a factorisation ends the learning
    with the last parameters that worked; so does Ctrl-C.
    """
    X = sample.X
    theta = {k: v.detach().to(X, copy=True).requires_grad_() for k, v in params.items()}
    points = Z.detach().to(X, copy=True).requires_grad_(options.learn_inducing)
    log_T = X.new_tensor(math.log(2.0)).requires_grad_()
    adam = Adam([*theta.values(), log_T, *([points] if options.learn_inducing else [])], betas=(0.9, 0.95))
    n_latents = likelihood.n_latents(sample.n_classes)
    W, G = start_sites(sample.y, n_latents, likelihood.shift_invariant, X)
    # Leaving out removes a copy of a row, or all there is of it, together with
    # the rows it stands for: otherwise those would betray its label.
    unit = sample.scale * part_left_out(sample.weight, sample.y, sample.n_classes)[:, None]
    features = FeaturesOfRows(kernel, X, points)
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
                objective = objective - 0.5 * ((value - start[name]) / options.prior_scale).square().sum()
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
    bound = torch.dot(weight, terms.value) - kl
    objective = options.bound_weight * bound
    if options.loo_weight:
        left = cavity(F, V, W * unit, G * unit)
        F_loo, s2_loo = latents_of_classes(left.F, left.V + residual[:, None])
        log_p = log_softmax_pairwise(F_loo, s2_loo, log_T.exp()).gather(1, y[:, None])[:, 0]
        objective = objective + options.loo_weight * torch.dot(weight, log_p)
    with torch.no_grad():
        return _Score(objective, float(bound), terms.W, terms.slope + terms.W * F)
