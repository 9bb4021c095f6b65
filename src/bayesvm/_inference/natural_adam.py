"""Natural gradients for q, Adam for kernel and inducing points, from one evaluation of a minibatch.

The recipe of Hensman et al. (2015) and Salimbeni et al. (2018), section 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._core import gaussian, linalg
from bayesvm._core.elbo import elbo
from bayesvm._core.features import DifferentiableFeatures, feature_gradient
from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._core.kernels.base import Params
from bayesvm._core.sites import dense_precision
from bayesvm._inference.adam import Adam
from bayesvm._inference.blocks import LARGEST_LOGARITHM, TrainingRows, recent_gain, shuffled
from bayesvm._inference.coordinate import base_gaussian, gaussian_of_sites
from bayesvm._inference.rivals import MIN_VARIANCE, AllRivals
from bayesvm._inference.task import Ascent, Member, Method, Outcome, Settings, Task, evaluate
from bayesvm._progress import Progress, Step

# --- q, kernel parameters and inducing points, and the step that moves them together (section 8).


ADAM_RATE = 0.05
# Larger steps of q fit minibatches; all rows allow them.
NATURAL_RATE = 0.1
NATURAL_RATE_ALL_ROWS = 0.3
# Slopes below this many nats a row are quadrature noise, which Adam would turn
# into full steps. The robust-max likelihood does not depend on the scale of the
# latents at all, and the variance of its kernel drifted to 1/20 of its start.
NOISE = 1e-4


class _Snapshot(NamedTuple):
    precision: Tensor
    q: Gaussian
    S: Tensor
    free: list[Tensor]


class NaturalAdam:
    """q, kernel parameters and inducing points, moved together step by step (eqs. 8.15, 8.16).

    Parameters
    ----------
    rows : TrainingRows
        Their kernel parameters and inducing points are where learning starts.
    rule : AllRivals
    start, base : Natural
        The initial q, and what it is without the rows.
    settings : Settings
    """

    def __init__(
        self, rows: TrainingRows, rule: AllRivals, start: Natural, base: Natural, settings: Settings
    ) -> None:
        self._rows = rows
        self._rule = rule
        self._base = base
        self._prior, self._centre = base_gaussian(base, rule)
        self._theta = {k: v.clone().requires_grad_(settings.learn_kernel) for k, v in rows.params.items()}
        self._Z = rows.Z.clone().requires_grad_(settings.learn_inducing)
        self._free = [p for p in (*self._theta.values(), self._Z) if p.requires_grad]
        self._adam = Adam(self._free, epsilon=NOISE * float(rows.weight.sum()))
        self._rate = settings.rate or ADAM_RATE
        own_rate = NATURAL_RATE if settings.batch_size < len(rows) else NATURAL_RATE_ALL_ROWS
        self._natural_rate = settings.natural_rate or own_rate
        self._total = rows.weight.sum()
        natural, q = start.posterior(self._centre)
        self._place(natural.precision, q, torch.cholesky_inverse(q.R))

    def _place(self, precision: Tensor, q: Gaussian, S: Tensor) -> None:
        """Set q and its covariances S.

        They are formed because every row needs S a itself, which a product
        gives in half the time of solves.
        """
        self._precision, self.q, self._S = precision, q, S
        J, P = q.m.shape
        self._S_beside = S.transpose(0, 1).reshape(P, J * P)

    def step(self, index: Tensor | None, move_q: bool = True, move_rest: bool = True) -> Tensor:
        """One step of everything along the gradient of some rows, or of all.

        Profiled on digits (P = 64, ten classes, 256 rows): 4.3 ms, of which
        1.3 are features and their gradient, 0.7 the likelihood, 1.0 the two
        products of C N P^2 and 1.0 the step of q. With autograd through q and
        the factorisation of K_ZZ it was 15 ms. What helped: one evaluation
        for both steps, gradients with respect to features in closed form,
        S in place of solves, one wide product instead of C small ones.

        Parameters
        ----------
        index : Tensor or None
            The rows; None: all of them.
        move_q, move_rest : bool
            What to move; both is the method. One after the other, on the
            same rows, is what GPflow does at twice the evaluations.

        Returns
        -------
        Tensor of shape ()
            Their weighted expected log-likelihood before the step.
        """
        rows, q = self._rows, self.q
        X, y, weight = rows.X, rows.y, rows.weight
        if index is not None:
            X, y, weight = X[index], y[index], weight[index]
        features = DifferentiableFeatures(rows.kernel, self._theta, self._Z, X)
        with torch.no_grad():
            A, residual = features.A, features.residual
            c = (weight * (self._total / weight.sum()))[:, None]
            N, P = A.shape
            SA = (A @ self._S_beside).view(N, -1, P)  # rows S_j a_n
            F = gaussian.mean(q, A)
            s2 = (torch.linalg.vecdot(SA, A[:, None, :]) + residual[:, None]).clamp_min_(MIN_VARIANCE)
            value, slope, W = self._rule.likelihood.row_terms(y, F, s2)
            slope, W = c * slope, c * W
            if move_q:
                base = self._base
                gap = dense_precision(A, W).add_(base.precision).sub_(self._precision)
                uphill = (slope.mT @ A).add_(base.linear).sub_(_times(base.precision, q.m))
                self._move_q(gap, uphill, self._natural_rate)
        if move_rest and self._free:
            adjoints = feature_gradient(A, None, W, slope, q.m, self._S, SA)
            grads = features.gradient(self._free, *adjoints)
            self._adam.along(grads, self._rate)
        return torch.dot(weight, value)

    def _move_q(self, gap: Tensor, uphill: Tensor, rho: float) -> None:
        r"""A natural step of length rho (eq. 8.15).

        ``gap`` is how much the rows' precisions exceed those of q and
        ``uphill`` the slope of the bound along the means. With L the
        precision, L + rho g + rho^2/2 g S g is ((L + rho g) S (L + rho g) +
        L) / 2: positive definite for any sign of W (Lin et al., 2020).
        Measured from a bad start, where W is negative for most rows of the
        robust-max likelihood, it gains in 50 steps what steps that are
        halved until they fit gain in 150; where W is positive the two are
        alike.
        """
        moved = torch.add(self._precision, gap, alpha=rho).baddbmm_(gap @ self._S, gap, alpha=0.5 * rho * rho)
        R = linalg.cholesky_precision(moved)
        S = torch.cholesky_inverse(R)
        q = Gaussian(torch.add(self.q.m, _times(S, uphill), alpha=rho), R)
        self._place(moved, gaussian.centred(q, self._centre) if self._centre else q, S)

    def settle(self, steps: int, rho: float) -> None:
        """Update q for the present kernel and inducing points, on all rows.

        Leave-one-out takes q for what the sites of the rows make of the prior.
        """
        with torch.no_grad():
            now = self._rows_now()
            for number in range(steps):
                target = evaluate(now, self._rule, self.q, self._base, number).target
                uphill = target.linear - _times(target.precision, self.q.m)
                self._move_q(target.precision - self._precision, uphill, rho)

    def _rows_now(self) -> TrainingRows:
        params: Params = {k: v.detach().clone() for k, v in self._theta.items()}
        return replace(self._rows, params=params, Z=self._Z.detach().clone())

    def bound_of(self, value: float) -> float:
        """The bound, given the expected log-likelihood of all rows."""
        return elbo(value, float(gaussian.kl(self.q, self._prior).sum()))

    def diverged(self) -> bool:
        """Whether the kernel parameters have diverged."""
        return not all(bool((p.detach().abs() < LARGEST_LOGARITHM).all()) for p in self._theta.values())

    def snapshot(self) -> _Snapshot:
        """A snapshot of everything."""
        return _Snapshot(self._precision, self.q, self._S, [p.detach().clone() for p in self._free])

    def return_to(self, snapshot: _Snapshot) -> None:
        """Undo all steps since a snapshot."""
        precision, q, S, values = snapshot
        self._place(precision, q, S)
        with torch.no_grad():
            for parameter, value in zip(self._free, values, strict=True):
                parameter.copy_(value)

    def outcome(self, curve: list[float], converged: bool, interrupted: bool) -> Outcome:
        """The rows under the present kernel and inducing points, and q with its sites."""
        with torch.no_grad():
            now = self._rows_now()
            found = evaluate(now, self._rule, self.q, self._base, len(curve))
            of_sites, near = gaussian_of_sites(now, self.q, found.target)
        natural = Natural(self._precision, _times(self._precision, self.q.m))
        return Outcome(
            now,
            Ascent(
                self.q,
                natural,
                found.sites,
                curve,
                len(curve),
                converged,
                interrupted,
                site_gaussian=of_sites,
                loo_valid=near,
            ),
        )


def _times(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Products of (C, P, P) and (C, P)."""
    return torch.bmm(matrices, vectors.unsqueeze(-1)).squeeze(-1)


EPOCHS = 500
_SETTLING_STEPS = 8
_SETTLING_RATE = 0.5


def _batches(n_rows: int, size: int, seed: int, epoch: int, device: torch.device) -> Iterator[Tensor | None]:
    """Shuffled minibatches of about one size, by seed and epoch; None: all rows."""
    if size >= n_rows:
        yield None
        return
    # Equal sizes: a small last batch would count as much as the others.
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
                raise ArithmeticError("q or the kernel overflowed")
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
