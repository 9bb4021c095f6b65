"""The mode: expectation-conditional-maximisation, with sites that are smoothed less and less.

Plain EM (eq. 8.20) converges slowly: rows far from the margin damp the mean although
their slope is zero, and rows on it need thousands of sweeps. Here the corners of the
likelihood are smoothed over a width that falls to zero (eqs. 8.21, 8.22). A sweep is
one site step at that width with an exact line search, and the slopes of the rows give
a dual objective, which bounds the distance to the mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._core import gaussian, linalg
from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._core.likelihoods import PointLikelihood, PointTerms
from bayesvm._inference.blocks import Block, TrainingRows
from bayesvm._inference.coordinate import base_gaussian
from bayesvm._inference.rivals import RivalRule
from bayesvm._inference.task import Ascent, Member, Method, Outcome, Sites, Task, evaluate, on_rows
from bayesvm._progress import Progress, Step

# --- Conjugate gradients, for systems too large or too close to singular to factorise.


Map = Callable[[Tensor], Tensor]


def conjugate_gradients(product: Map, precondition: Map, b: Tensor, steps: int, slack: float) -> Tensor:
    """Solve product(x) = b for a positive semi-definite map, from x = 0.

    Ends when the preconditioned residual has fallen to ``slack`` times the
    first one, after ``steps`` steps, or where the map does not bend any more.
    """
    x, left = torch.zeros_like(b), b
    p = z = precondition(left)
    size = first = float((left * z).sum())
    for _ in range(steps):
        if not size > slack**2 * first:
            break
        image = product(p)
        bend = float((p * image).sum())
        if not bend > 0.0:
            break
        x, left = x + (size / bend) * p, left - (size / bend) * image
        z = precondition(left)
        new = float((left * z).sum())
        p = z + (new / size) * p
        size = new
    return x


# --- The mode as a pair of convex problems over all rows: values, duals and the maps between them.


_BLOCK_NUMBERS = 2_000_000
# Rows with less than this share of the largest curvature are left out of a
# factorisation: exact solves need more of them than preconditioners do.
_NEGLIGIBLE_EXACT = 1e-10
_NEGLIGIBLE_ROUGH = 1e-4
# Above this share of rows, gathering them costs more than it saves.
_MOST_GATHERED = 0.6


@dataclass(frozen=True)
class ModeProblem:
    r"""Minimise half the distance to the base minus the weighted log-likelihood of rows (eq. 8.20).

    Attributes
    ----------
    rows : TrainingRows
    mode : PointLikelihood
    base : Natural
        What q is without the rows.
    fitc : bool
        Whether rows have residuals of their own.
    """

    rows: TrainingRows
    mode: PointLikelihood
    base: Natural
    fitc: bool
    prior: Gaussian = field(init=False)
    k: Tensor = field(init=False)
    _is_prior: bool = field(init=False)

    def __post_init__(self) -> None:
        residual = torch.zeros_like(self.rows.weight)
        if self.fitc:
            residual = torch.cat([block.features.residual for block in self._blocks()])
        object.__setattr__(self, "prior", gaussian.from_natural(self.base.precision, self.base.linear))
        plain = Natural.prior(self.base.linear.shape[0], self.base.precision)
        object.__setattr__(self, "_is_prior", torch.equal(self.base.precision, plain.precision))
        # A row of weight c is c observations of one and the same latent.
        object.__setattr__(self, "k", self.rows.weight * residual)

    def _blocks(self) -> Iterator[Block]:
        J = self.base.linear.shape[0]
        return self.rows.blocks(_BLOCK_NUMBERS // (J + self.rows.n_inducing))

    # ------------------------------------------------------------ maps

    def latents(self, v: Tensor) -> Tensor:
        """A v_j of all rows, shape (N, J)."""
        return torch.cat([block.features.A @ v.mT for block in self._blocks()])

    def pulled_back(self, G: Tensor) -> Tensor:
        """Weighted sums of G a over the rows, shape (J, P)."""
        cG = self.rows.weight[:, None] * G
        total = torch.zeros_like(self.base.linear)
        for block in self._blocks():
            total.addmm_(cG[block.rows].mT, block.features.A)
        return total

    def precision(self, W: Tensor) -> Tensor:
        """The base's precision plus weighted sums of W a a^T, shape (J, P, P)."""
        cW = self.rows.weight[:, None] * W
        share = _NEGLIGIBLE_EXACT if self.mode.separable else _NEGLIGIBLE_ROUGH
        kept = cW > share * cW.amax(0)
        total = self.base.precision.clone(memory_format=torch.contiguous_format)
        for block in self._blocks():
            for precision, w, chosen in zip(total, cW[block.rows].mT, kept[block.rows].mT, strict=True):
                index = chosen.nonzero()[:, 0]
                A = block.features.A
                if len(index) < _MOST_GATHERED * len(chosen):
                    A, w = A[index], w[index]
                precision.addmm_((A * w[:, None]).mT, A)
        return total

    def hessian_product(self, terms: PointTerms, v: Tensor) -> Tensor:
        """The Hessian of the smoothed problem times v, shape (J, P)."""
        return self.base_product(v) + self.pulled_back(terms.bent(self.latents(v)))

    def base_product(self, v: Tensor) -> Tensor:
        """The base's precision times v."""
        if self._is_prior:
            return v
        return (self.base.precision @ v.unsqueeze(-1)).squeeze(-1)

    # ------------------------------------------------------------ values, one per group

    def fold(self, x: Tensor) -> Tensor:
        """Sums per latent function (J,), or their total (1,) where functions share a problem."""
        return x if self.mode.separable else x.sum(0, keepdim=True)

    def total(self, values: Tensor) -> Tensor:
        """Weighted sums over rows."""
        return self.rows.weight @ values

    def distance(self, m: Tensor) -> Tensor:
        """Half the squared distance of m from the base, shape (G,)."""
        shift = m - self.prior.m
        return self.fold(0.5 * (shift * self.base_product(shift)).sum(1))

    def smoothed(self, F: Tensor, width: Tensor) -> PointTerms:
        return self.mode.smoothed(self.rows.y, F, self.k, width)

    def at(self, F: Tensor) -> Tensor:
        """Weighted log-likelihood, shape (G,)."""
        return self.total(self.mode.at(self.rows.y, F, self.k))

    def conjugate(self, slope: Tensor) -> Tensor:
        return self.total(self.mode.conjugate(self.rows.y, slope, self.k))

    def dual(self, slope: Tensor, pulled: Tensor) -> Tensor:
        """A lower bound on the least objective, from slopes and their pull-back, shape (G,) (eq. 8.23)."""
        quadratic = linalg.inverse_quadratic(self.prior.R, pulled.unsqueeze(-1)).squeeze(-1)
        return self.conjugate(slope) - self.fold((pulled * self.prior.m).sum(1) + 0.5 * quadratic)

    def downhill(self, m: Tensor, pulled: Tensor) -> Tensor:
        """Minus the gradient of the objective where slopes have that pull-back, shape (J, P)."""
        return pulled - self.base_product(m - self.prior.m)

    def quadratic(self, m: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """First and second derivative of the distance along d, shape (G,) each."""
        by_base = self.base_product(d)
        return self.fold(((m - self.prior.m) * by_base).sum(1)), self.fold((d * by_base).sum(1))


# The duality gap at which the search has converged, for a tolerance of one;
# functions that share rows need many inner steps for another digit.
_GAP_SHARE, _GAP_SHARE_JOINT = 1e-3, 5e-3
# Smaller gaps, in units of the rounding error, are lost in sums over rows.
_ROUNDING = 1e3
_SMALLEST_WIDTH = 1e-8
# The width falls quickly where the expected gain of a step is below the cost of
# smoothing, not at all where it is far above (measured in docs/theory.md).
_FAST, _SLOW = 0.5, 0.7
_SETTLED, _MOVING = 1.0, 3.0
_LINE_TRIALS = 30
_LINE_SLACK = 0.1
_INNER_STEPS = 200
_INNER_SLACK = 0.01
_ROUGH = 0.1
_SHARPER, _LEAST_SLACK = 0.3, 1e-6
_COVARIANCE_STEPS = 20
_COVARIANCE_TOLERANCE = 5e-3
_COVARIANCE_DAMPING = 0.8
_RETURN_STEPS = 200
_RETURN_SLACK = 1e-7
_TINY = 1e-30


def ascend(
    rows: TrainingRows,
    mode: PointLikelihood,
    rule: RivalRule,
    start: Natural,
    base: Natural,
    fitc: bool,
    max_iter: int,
    tol: float,
    progress: Progress,
) -> Ascent:
    """Sweep until the duality gap is as small as required.

    Parameters
    ----------
    rows, start, base, max_iter, progress : as in ``coordinate.ascend``
    mode : PointLikelihood
        The likelihood at points.
    rule : RivalRule
        Where the covariance around the mode comes from (eq. 8.24).
    fitc : bool
        Whether rows have residuals of their own.
    tol : float
        Largest relative duality gap (eq. 8.23) in thousandths, or in two-hundredths
        where latent functions share rows.
    """
    problem = ModeProblem(rows, mode, base, fitc)
    _, centre = base_gaussian(base, rule)
    _, q = start.posterior(centre)
    search = _ModeSearch(problem, q.m)
    enough = max(
        tol * (_GAP_SHARE if mode.separable else _GAP_SHARE_JOINT), _ROUNDING * torch.finfo(q.m.dtype).eps
    )
    curve: list[float] = []
    converged = interrupted = False

    def state() -> Ascent:
        return _around(search, rule, q, _Record(curve, converged, interrupted))

    try:
        for sweep in range(1, max_iter + 1):
            change = search.sweep()
            curve.append(search.bound)
            converged = search.gap() <= enough
            stop = progress(Step("posterior", sweep, max_iter, curve[-1], change, state))
            if stop or converged or change == 0.0:
                break
    except KeyboardInterrupt:
        interrupted = True
    return state()


class _NewtonStep(NamedTuple):
    """The result of one pass over the rows at a given mean.

    Attributes
    ----------
    d, dF : Tensor of shape (J, P) and (N, J)
        The full step, of the mean and of its latents.
    slope : Tensor of shape (N, J)
        Slopes of the rows at the end of the full step, to first order: they make that end.
    promise, cost : Tensor of shape (G,)
        What the step should gain, twice, and what the smoothing costs.
    """

    d: Tensor
    dF: Tensor
    slope: Tensor
    promise: Tensor
    cost: Tensor


class _ModeSearch:
    """The mean on its way to the mode.

    Attributes
    ----------
    m, F : Tensor of shape (J, P) and (N, J)
        The mean and its latents.
    bound : float
        The smoothed objective: it rises with every sweep and never exceeds the objective.
    """

    def __init__(self, problem: ModeProblem, m: Tensor) -> None:
        self.problem = problem
        self.m, self.F = m, problem.latents(m)
        self.bound = -math.inf
        self._width = torch.ones_like(problem.at(self.F))
        self._dual = torch.full_like(self._width, -math.inf)
        self._slack = _INNER_SLACK

    def newton_step(self) -> _NewtonStep:
        """The step from here; the slopes may raise the dual value."""
        problem, y = self.problem, self.problem.rows.y
        terms = problem.smoothed(self.F, self._width)
        pulled = problem.pulled_back(terms.slope)
        downhill = problem.downhill(self.m, pulled)
        d, dF = _direction(problem, terms, downhill, self._slack)
        slope = terms.slope - terms.bent(dF)
        feasible = problem.mode.feasible(y, slope)
        for alpha, image in ((terms.slope, pulled), (feasible, problem.pulled_back(feasible))):
            self._dual = torch.maximum(self._dual, problem.dual(alpha, image))
        linear = problem.fold(problem.total(terms.slope * self.F))
        cost = linear - problem.at(self.F) - problem.conjugate(terms.slope)
        return _NewtonStep(d, dF, slope, problem.fold((downhill * d).sum(1)), cost)

    def sweep(self) -> float:
        """One step and a smaller width; gives the RMS change of the latents."""
        problem, newton = self.problem, self.newton_step()
        t = _line_search(problem, self.m, self.F, newton, self._width)
        dF = t * newton.dF
        self.m, self.F = self.m + t.expand(newton.d.shape[0])[:, None] * newton.d, self.F + dF
        settled = newton.promise < _SETTLED * newton.cost
        waiting = newton.promise > _MOVING * newton.cost
        if not problem.mode.separable:
            # An inexact step underestimates its gain. Where smoothing costs a
            # negligible part of the gap, solve for the step more exactly instead.
            rough = newton.cost < _ROUGH * (self._objective() - self._dual)
            waiting = waiting | rough
            self._slack = max(_LEAST_SLACK, _SHARPER * self._slack) if bool(rough) else _INNER_SLACK
        factor = torch.where(waiting, 1.0, torch.where(settled, _FAST, _SLOW))
        self._width = (factor * self._width).clamp_min(_SMALLEST_WIDTH)
        value = problem.total(problem.smoothed(self.F, self._width).value)
        self.bound = float((value - problem.distance(self.m)).sum())
        return float(dF.square().mean().sqrt())

    def _objective(self) -> Tensor:
        return self.problem.distance(self.m) - self.problem.at(self.F)

    def gap(self) -> float:
        """Relative duality gap, of the worst function (eq. 8.23)."""
        objective = self._objective()
        return float(((objective - self._dual) / objective.clamp_min(_TINY)).max())


def _direction(
    problem: ModeProblem, terms: PointTerms, downhill: Tensor, slack: float
) -> tuple[Tensor, Tensor]:
    """The Newton step and its change of latents.

    Where functions share rows, conjugate gradients that every function's own
    curvature preconditions; where they do not, that is the solution.
    """
    R = linalg.cholesky_precision(problem.precision(terms.curvature))

    def solve(x: Tensor) -> Tensor:
        return torch.cholesky_solve(x.unsqueeze(-1), R).squeeze(-1)

    if terms.u is None:
        d = solve(downhill)
    else:
        d = conjugate_gradients(
            lambda v: problem.hessian_product(terms, v), solve, downhill, _INNER_STEPS, slack
        )
    return d, problem.latents(d)


def _line_search(problem: ModeProblem, m: Tensor, F: Tensor, newton: _NewtonStep, width: Tensor) -> Tensor:
    """Step lengths, shape (G,): Newton's method in one dimension, safeguarded by a bracket.

    Latents are linear in the step, so that a trial needs no features.
    """
    away, along = problem.quadratic(m, newton.d)
    first = -newton.promise
    t = torch.ones_like(first)
    low, high = torch.zeros_like(t), torch.full_like(t, math.inf)
    found = torch.zeros_like(t, dtype=torch.bool)
    for _ in range(_LINE_TRIALS):
        terms = problem.smoothed(F + t * newton.dF, width)
        rise = away + t * along - problem.fold(problem.total(terms.slope * newton.dF))
        found = rise.abs() <= _LINE_SLACK * first.abs()
        if bool(found.all()):
            break
        bend = along + problem.fold(problem.total(terms.bent(newton.dF) * newton.dF))
        low, high = torch.where(rise <= 0.0, t, low), torch.where(rise > 0.0, t, high)
        new = torch.minimum(t - rise / bend.clamp_min(_TINY), 4.0 * t)
        middle = 0.5 * (low + torch.where(high.isinf(), 4.0 * low, high))
        t = torch.where(found, t, torch.where((new > low) & (new < high), new, middle))
    # Up to the lower end of the bracket the objective falls.
    return torch.where(found, t, low)


class _Record(NamedTuple):
    """The progress of an ascent."""

    curve: list[float]
    converged: bool
    interrupted: bool


def _around(search: _ModeSearch, rule: RivalRule, start: Gaussian, record: _Record) -> Ascent:
    r"""The mode as the mean of a q whose sites can be left out one by one (eq. 8.24).

    Precisions are those a variational fit with this mean would have, slopes
    are those of the mode: :math:`G = \text{slope} + W F`.
    """
    problem, rows = search.problem, search.problem.rows
    J = search.m.shape[0]
    slope = search.newton_step().slope
    q, precision, W = Gaussian(search.m, start.R), problem.base.precision, torch.zeros_like(slope)
    for step in range(_COVARIANCE_STEPS):
        now = evaluate(rows, rule, q, problem.base, 0)
        rho = 1.0 if step == 0 else _COVARIANCE_DAMPING
        precision = torch.lerp(precision, now.target.precision, rho)
        W = torch.lerp(W, now.sites.dense(slice(None), J)[0], rho)
        before, q = q, Gaussian(search.m, linalg.cholesky_precision(precision))
        if float((q.R - before.R).norm()) < rho * _COVARIANCE_TOLERANCE * float(q.R.norm()):
            break
    # The slopes give nearly the mean after the next step. The difference to the
    # present mean is distributed over them, as far as they span it.
    left = problem.downhill(search.m, problem.pulled_back(slope))
    beyond = precision - problem.base.precision
    x = conjugate_gradients(
        lambda v: (beyond @ v.unsqueeze(-1)).squeeze(-1),
        lambda v: torch.cholesky_solve(v.unsqueeze(-1), q.R).squeeze(-1),
        left,
        _RETURN_STEPS,
        _RETURN_SLACK,
    )
    G = slope + W * (search.F - problem.latents(x))
    return Ascent(
        q=q,
        natural=Natural.of(q),
        sites=Sites(None, W, G),
        curve=record.curve,
        n_iter=len(record.curve),
        converged=record.converged,
        interrupted=record.interrupted,
        gap=search.gap(),
    )


def _missing(member: Member) -> str | None:
    if member.mode is not None:
        return None
    return f"a likelihood whose mode is known, which that of {type(member.likelihood).__name__} is not"


def _run(task: Task, progress: Progress) -> Outcome:
    rows, member, start, base, settings = task
    assert member.mode is not None
    if settings.fitc and not member.mode.takes_residual:
        raise ValueError(
            "approximation='fitc' is not valid with inference='ecm' and more than two classes; it must be "
            "'dtc', which leaves the residual out"
        )
    with torch.no_grad():
        ascent = ascend(
            rows,
            member.mode,
            member.rule,
            start,
            base,
            settings.fitc,
            settings.max_iter,
            settings.tol,
            on_rows(rows, progress),
        )
    return Outcome(rows, ascent)


METHOD = Method(_run, max_iter=100, missing=_missing, approximations=("dtc", "fitc"), mean_decides=True)
