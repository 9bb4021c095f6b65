"""Learning kernel parameters: the bound, leave-one-out or both, while q tracks along.

One step recomputes q from fixed sites under the new kernel, scores it, moves
the parameters by Adam and refreshes the sites from the same quadrature
(section 5): one sweep over the rows per step, and no inner loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bayesvm.core.covariance import inducing_factor, whitened_features
from bayesvm.core.kernels.base import Kernel, Params
from bayesvm.core.leave_one_out import cavity
from bayesvm.core.likelihoods.base import Likelihood, expected
from bayesvm.core.linalg import NotPositiveDefiniteError
from bayesvm.core.predictive import log_softmax_pairwise
from bayesvm.core.sites import dense_statistics, posterior_moments
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.rivals import MIN_VARIANCE
from bayesvm.prediction import latents_of_classes
from bayesvm.progress import Progress

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
    """

    bound_weight: float
    loo_weight: float
    steps: int
    rate: float
    damping: float
    learn_inducing: bool


@dataclass(frozen=True)
class Learned:
    """Kernel parameters, inducing points and the q that came with them."""

    params: Params
    Z: Tensor
    natural: Natural
    curve: list[float]
    interrupted: bool


def start_sites(y: Tensor, n_latents: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Sites of a ridge regression on centred one-hot targets, shape (N, C) each (eq. 3.6)."""
    W = like.new_full((y.shape[0], n_latents), _START_PRECISION)
    if n_latents == 1:
        target = (2 * y - 1).to(like.dtype)[:, None]
    else:
        target = like.new_full((y.shape[0], n_latents), -_START_MARGIN / n_latents)
        target.scatter_(1, y[:, None], _START_MARGIN * (1.0 - 1.0 / n_latents))
    return W, W * target


def learn_kernel(
    kernel: Kernel,
    params: Params,
    Z: Tensor,
    X: Tensor,
    y: Tensor,
    weight: Tensor,
    likelihood: Likelihood,
    n_classes: int,
    options: LearningOptions,
    progress: Progress,
) -> Learned:
    """Move the kernel parameters (and Z) uphill for a number of steps.

    A step that leaves the finite or breaks a factorisation ends the learning
    with the last parameters that worked; so does Ctrl-C.
    """
    theta = {k: v.detach().clone().requires_grad_() for k, v in params.items()}
    points = Z.detach().clone().requires_grad_(options.learn_inducing)
    log_T = X.new_tensor(math.log(2.0)).requires_grad_()
    free = [*theta.values(), log_T, *([points] if options.learn_inducing else [])]
    adam = torch.optim.Adam(free, lr=options.rate, betas=(0.9, 0.95), foreach=False)
    W, G = start_sites(y, likelihood.n_latents(n_classes), X)
    c = weight[:, None]
    unit = c.clamp_max(1.0)  # leaving out removes one unit of weight, or all there is
    good = _snapshot(theta, points)
    curve: list[float] = []
    interrupted = False
    try:
        for step in range(options.steps):
            adam.param_groups[0]["lr"] = options.rate * min(1.0, 2.0 * (1.0 - step / options.steps) + 0.05)
            A, residual = whitened_features(kernel, theta, points, inducing_factor(kernel, theta, points), X)
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
            if not bool(torch.isfinite(objective)):
                break
            good = _snapshot(theta, points)
            adam.zero_grad()
            (-objective).backward()
            adam.step()
            with torch.no_grad():
                W.lerp_(terms.W, options.damping)
                G.lerp_(terms.slope + terms.W * F, options.damping)
            curve.append(float(bound.detach()))
            change = abs(curve[-1] - curve[-2]) / max(1.0, abs(curve[-1])) if len(curve) > 1 else math.inf
            if progress("kernel", step + 1, options.steps, curve[-1], change):
                break
        else:
            good = _snapshot(theta, points)
    except KeyboardInterrupt:
        interrupted = True
    except NotPositiveDefiniteError:
        pass
    params, Z = good
    with torch.no_grad():
        A, _ = whitened_features(kernel, params, Z, inducing_factor(kernel, params, Z), X)
        precision, linear = dense_statistics(A, c * W, c * G)
        eye = torch.eye(Z.shape[0], dtype=Z.dtype, device=Z.device)
    return Learned(params, Z, Natural(precision + eye, linear), curve, interrupted)


def _snapshot(theta: Params, points: Tensor) -> tuple[Params, Tensor]:
    return {k: v.detach().clone() for k, v in theta.items()}, points.detach().clone()
