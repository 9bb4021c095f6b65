"""How latents become class probabilities: temperature, spread, offsets, mixing, weights.

Equations 6.7, 6.9, 6.23, 9.10 and 11.3.

Estimators fit the first four to leave-one-out latents, ``fit_calibration``, and
to left-out probabilities the weights of a committee, ``member_weights``; the
head of a network fits the first two to held-out rows, ``fit_held_out``. Both
compare values of one loss, ``loss_curve``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from bayesvm._core import linalg
from bayesvm._core.linalg import LOG2_E
from bayesvm._core.predictive import expected_softmax, margins_at_nodes

# Nats that a spread must gain for each unit of its logarithm: a prior that
# keeps small data sets at one (docs/defaults.md).
_NATS_PER_LOG_SPREAD = 5.0
# Precision of the normal prior on class log-odds, and nats that each of them must gain. Otherwise they fit
# chance differences of class frequencies: on 27 shapes of noise the estimated accuracy was .041 too high
# without that cost, .010 with it, at the same log-loss of small sets (docs/defaults.md).
OFFSET_PRECISION = 1.0
_NATS_PER_OFFSET = 1.0
# Rows from which a class may have an offset.
FEWEST_OF_CLASS = 5.0
_NODES = 32
# Numbers in memory at once: on a processor, as many as a cache holds.
_BLOCK_NUMBERS = {"cpu": 200_000}
_BLOCK_NUMBERS_ACCELERATOR = 2**22


@dataclass(frozen=True)
class Deviations:
    """Draws of latents minus their means, (N, C, S), used instead of Gaussian variances."""

    d: Tensor

    def __getitem__(self, rows: slice) -> Deviations:
        return Deviations(self.d[rows])

    def __rmul__(self, factor: float) -> Deviations:
        """A factor on the variances."""
        return Deviations(factor**0.5 * self.d)

    def float(self) -> Deviations:
        """In single precision."""
        return Deviations(self.d.float())


@dataclass(frozen=True)
class Calibration:
    """Class probabilities are E softmax(T (f + offset)), with Var f multiplied by the spread.

    Of a committee each member has its own, with its weight in the mixture (eq. 11.2).
    Means are mixed over the classes first, where there is a matrix for it (eq. 6.23).
    """

    temperature: float
    spread: float
    offset: tuple[float, ...]
    weight: float = 1.0
    mixing: tuple[tuple[float, ...], ...] | None = None

    @classmethod
    def none(cls, n_classes: int) -> Calibration:
        """The softmax of the latents as they are."""
        return cls(1.0, 1.0, (0.0,) * n_classes)

    def of(self, F: Tensor, s2: Tensor) -> tuple[Tensor, Tensor, float]:
        """Means, variances and temperature of calibrated latents, as ``expected_softmax`` takes them."""
        return self.mean(F), self.spread * s2, self.temperature

    def at_draws(self, mean: Tensor, deviations: Tensor) -> Tensor:
        """Softmax of calibrated latents: a mean (N, C) and deviations (S, N, C) of draws (eq. 8.38)."""
        return torch.softmax(self.temperature * (self.mean(mean) + self.spread**0.5 * deviations), -1)

    def mean(self, F: Tensor) -> Tensor:
        """Means (..., C), mixed and shifted (eqs. 6.9, 6.23)."""
        shifted = F + F.new_tensor(self.offset)
        if self.mixing is None:
            return shifted
        return shifted + (F - F.mean(-1, keepdim=True)) @ F.new_tensor(self.mixing)


def loss_curve(
    F: Tensor,
    s2: Tensor | Deviations,
    y: Tensor,
    weight: Tensor,
    temperatures: Tensor,
    log_odds: Tensor | None = None,
    n_nodes: int = _NODES,
) -> Tensor:
    """Weighted log-loss of E softmax(T f + log_odds), summed over the rows, at each temperature (eq. 6.7).

    The latents at the nodes are computed once; a temperature then costs one
    power per row, node and class. Single precision: the curve is compared at
    a thousandth of a nat, and this is most of what follows a small fit.
    """
    curve = [0.0] * len(temperatures)
    for rows in _blocks(F, n_nodes):
        behind, node_weight = _margins(F[rows].float(), s2[rows].float(), y[rows], n_nodes)
        scratch = torch.empty_like(behind)
        ahead = None if log_odds is None else (log_odds[:, None] - log_odds[y[rows]]).exp().float()
        for i, T in enumerate(temperatures.tolist()):
            odds = torch.mul(behind, LOG2_E * T, out=scratch).exp2_()
            if ahead is not None:
                odds.mul_(ahead[:, :, None])
            p = odds.sum(0).reciprocal_() @ node_weight
            log_p = p.clamp_min_(torch.finfo(p.dtype).tiny).log_().to(weight.dtype)
            curve[i] -= float((weight[rows] * log_p).sum())
    return torch.tensor(curve, dtype=torch.float64)


def _blocks(F: Tensor, n_nodes: int) -> Sequence[slice]:
    numbers = _BLOCK_NUMBERS.get(F.device.type, _BLOCK_NUMBERS_ACCELERATOR)
    size = max(1, numbers // (n_nodes * F.shape[1]))
    return [slice(start, start + size) for start in range(0, F.shape[0], size)]


def _margins(F: Tensor, s2: Tensor | Deviations, y: Tensor, n_nodes: int) -> tuple[Tensor, Tensor]:
    """Latents minus that of class y, (C, N, S), at fixed nodes of Gaussians or at draws, and weights (S,)."""
    if not isinstance(s2, Deviations):
        return margins_at_nodes(F, s2, y, n_nodes)
    f = (F[..., None] + s2.d).transpose(0, 1).contiguous()
    n_draws = f.shape[2]
    own = f.gather(0, y[None, :, None].expand(1, -1, n_draws))
    return f.sub_(own.clone()), torch.full((n_draws,), 1.0 / n_draws, dtype=f.dtype, device=f.device)


# --- All from leave-one-out latents: temperatures and spreads on a grid, then offsets, then mixing.


# Down to where latents say next to nothing and offsets everything: rows of noise then get the class
# frequencies (ten shapes: confidence .040 above accuracy with a smallest temperature of 1/4, .017 with this).
TEMPERATURES = torch.tensor([2.0 ** (i / 3 - 6.0) for i in range(34)], dtype=torch.float64)
SPREADS = torch.tensor([2.0 ** (-0.5 * i) for i in range(9)], dtype=torch.float64)
# Classes of few rows move their latents by a small part of the margin, and of what is uncertain:
# temperatures beyond the others go with spreads beyond the others.
WIDE_TEMPERATURES = torch.tensor([2.0 ** (i / 3 - 6.0) for i in range(49)], dtype=torch.float64)
WIDE_SPREADS = torch.tensor([2.0 ** (-0.5 * i) for i in range(21)], dtype=torch.float64)
# On separable data ever larger temperatures look ever better by nothing:
# take the smallest that is as good to this many nats a row.
_INDIFFERENCE = 1e-3
_STRIDE = 3


def fit_calibration(
    F: Tensor,
    s2: Tensor | Deviations,
    y: Tensor,
    weight: Tensor,
    offsets: bool = True,
    wide: bool = False,
    known: Tensor | None = None,
) -> Calibration:
    """The calibration of least leave-one-out log-loss plus priors (eqs. 6.7, 6.9, 6.23).

    Spreads are tried from one downwards until they no longer pay. The best
    temperature moves little from one spread to the next, so only its
    neighbourhood is searched after the first, and at last together with the
    offsets, which must pay too. Both are looked for further out if ``wide``; ``known`` is that of
    ``fit_offsets``. Without ``offsets`` nothing is mixed either.
    """
    temperatures, spreads = (WIDE_TEMPERATURES, WIDE_SPREADS) if wide else (TEMPERATURES, SPREADS)
    slack = _INDIFFERENCE * float(weight.sum())
    curve = _infinite(len(temperatures))
    n = len(TEMPERATURES)
    curve[:n] = _coarse_to_fine(lambda i: loss_curve(F, s2, y, weight, temperatures[i]), slack, n)
    cost, spread = float(curve.min()), 1.0
    for smaller in spreads[1:].tolist():
        n = len(TEMPERATURES) if smaller >= SPREADS[-1] else len(temperatures)
        middle = int(curve.argmin())
        near = slice(max(0, middle - 3), min(middle + 2, n))
        tried = _infinite(len(curve))
        tried[near] = loss_curve(F, smaller * s2, y, weight, temperatures[near])
        new_cost = float(tried.min()) - _NATS_PER_LOG_SPREAD * math.log(smaller)
        if new_cost >= cost:
            break
        curve, cost, spread = tried, new_cost, smaller
    T, offset = float(temperatures[_smallest_good(curve, slack)]), (0.0,) * F.shape[1]
    if not offsets:
        return Calibration(T, spread, offset)
    n = len(TEMPERATURES) if spread >= SPREADS[-1] else len(temperatures)
    found = _with_offsets(F, spread * s2, y, weight, curve, temperatures[:n], slack, known)
    if found.cost < float(curve.min()):
        T, offset = found.T, tuple((found.log_odds / found.T).tolist())
    calibration = Calibration(T, spread, offset)
    if not 3 <= F.shape[1] <= MOST_MIXED:
        return calibration
    mixing = fit_mixing(F, s2, y, weight, calibration)
    return replace(calibration, mixing=tuple(map(tuple, mixing.tolist())))


class _WithOffsets(NamedTuple):
    """Temperature and class log-odds, and what they cost with their prices."""

    T: float
    log_odds: Tensor
    cost: float


def _with_offsets(
    F: Tensor,
    s2: Tensor | Deviations,
    y: Tensor,
    weight: Tensor,
    curve: Tensor,
    temperatures: Tensor,
    slack: float,
    known: Tensor | None,
) -> _WithOffsets:
    """Temperature and class log-odds, fitted jointly.

    ``curve`` is the loss without offsets and says where to start. Where a few
    classes have most of the rows it is far off: there a temperature does what
    offsets should. Each fitted given the other, both would stay as they are,
    since a smaller one needs a smaller other.
    """
    fitted: dict[int, tuple[float, Tensor]] = {}

    def loss(i: int, near: int) -> float:
        if not 0 <= i < len(temperatures):
            return math.inf
        if i not in fitted:
            start = fitted[near][1] if near in fitted else None
            b = fit_offsets(F, s2, y, weight, float(temperatures[i]), known, start)
            fitted[i] = float(loss_curve(F, s2, y, weight, temperatures[i : i + 1], b)), b
        return fitted[i][0]

    i = _smallest_good(curve, slack)
    least = loss(i, i)
    for step in (-1, 1):
        while loss(i + step, i) < least - slack:
            i += step
            least = loss(i, i)
    least = min(least, float(curve.min()))
    while loss(i - 1, i) <= least + slack:
        i -= 1
    loss_then, b = fitted[i]
    free = max(0, int(torch.count_nonzero(b)) - 1)  # they sum to zero
    prices = _NATS_PER_OFFSET * free + 0.5 * OFFSET_PRECISION * float(b.double().square().sum())
    return _WithOffsets(float(temperatures[i]), b, loss_then + prices)


def _coarse_to_fine(losses: Callable[[list[int]], Tensor], slack: float, n: int) -> Tensor:
    """The curve where it matters, infinity elsewhere: around its minimum and where it comes within the slack.

    It has one valley, so every third temperature shows where to look closer.
    """
    curve = _infinite(n)
    coarse = list(range(0, n, _STRIDE))
    curve[coarse] = losses(coarse)
    least, first = int(curve.argmin()), _smallest_good(curve, slack)
    closer = {*range(first - _STRIDE + 1, first), *range(least - _STRIDE + 1, least + _STRIDE)}
    fine = sorted(closer & set(range(n)) - set(coarse))
    curve[fine] = losses(fine)
    return curve


def _infinite(n: int) -> Tensor:
    return torch.full((n,), math.inf, dtype=torch.float64)


def _smallest_good(curve: Tensor, slack: float) -> int:
    """Which is the smallest temperature whose loss is within the slack of the least."""
    return int(torch.nonzero(curve <= curve.min() + slack)[0, 0])


# --- Offsets, by expectation-maximisation.


_OFFSET_STEPS = 10
_OFFSET_TOLERANCE = 0.02
_LARGEST_LOG_ODDS = 30.0


def fit_offsets(
    F: Tensor,
    s2: Tensor | Deviations,
    y: Tensor,
    weight: Tensor,
    T: float,
    known: Tensor | None = None,
    start: Tensor | None = None,
) -> Tensor:
    r"""Log-odds b of the classes in E softmax(T f + b), shape (C,), with a normal prior (eq. 6.9).

    A few steps of expectation-maximisation over the nodes, each with Newton's
    step for the multinomial logistic model that remains. They sum to zero.
    A class of few rows loses much of itself with one of them, and
    leave-one-out votes against it: such classes stay at zero and their rows
    do not count. ``known`` says which have enough, shape (C,), where these
    rows are a sample; ``start`` is where the steps begin.
    """
    C = F.shape[1]
    zeros = F.new_zeros(C, dtype=torch.float64)
    b = zeros if start is None else start.double()
    largest = float(weight.max())  # weights of any size fit into single precision as shares of it
    counts = zeros.index_add(0, y, weight.double())
    enough = counts >= FEWEST_OF_CLASS if known is None else known
    classes = torch.nonzero(enough)[:, 0]
    if len(classes) < 2:
        return zeros.to(F.dtype)
    light = torch.where(enough[y], weight / largest, 0.0).float()
    for _ in range(_OFFSET_STEPS):
        gradient = (counts - OFFSET_PRECISION * b)[classes]
        curvature = OFFSET_PRECISION * torch.eye(len(classes), dtype=b.dtype, device=b.device)
        for rows in _blocks(F, _NODES):
            logits, node_weight = _margins(F[rows].float(), s2[rows].float(), y[rows], _NODES)
            pi = torch.softmax(logits.mul_(T).add_(b[:, None, None].float()), 0)  # [C, N, S]
            own = pi.gather(0, y[None, rows, None].expand(1, -1, pi.shape[2]))[0] * node_weight
            share = own / own.sum(1, keepdim=True).clamp_min(torch.finfo(own.dtype).tiny)
            pi = pi[classes].flatten(1)
            mine = pi * (light[rows, None] * share).flatten()
            expected = largest * mine.sum(1).double()
            gradient -= expected
            curvature += torch.diag(expected) - largest * (mine @ pi.mT).double()
        # Adding the same to all classes changes nothing: that direction is made stiff, not singular.
        stiff = curvature + curvature.diagonal().mean() / len(classes)
        step = torch.linalg.solve(stiff, gradient - gradient.mean())
        b = b.index_add(0, classes, step - step.mean()).clamp(-_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)
        if float(step.abs().max()) < _OFFSET_TOLERANCE:
            break
    return b.to(F.dtype)


# --- Mixing: what the latents of other classes say about a class, by steps of the same kind.


# Most classes whose latents are mixed: the steps solve for C^2 numbers.
MOST_MIXED = 20
# Of the normal prior on every number of the matrix. The log-loss of 34 small sets in four splits falls by
# 1.1 %, on 73 % of them; on noise mixing does nothing (docs/defaults.md).
MIXING_PRECISION = 10.0
_MIXING_STEPS = 5
_MIXING_TOLERANCE = 0.05
_STEP_LENGTHS = (1.0, 0.5, 0.25)


def fit_mixing(
    F: Tensor, s2: Tensor | Deviations, y: Tensor, weight: Tensor, calibration: Calibration
) -> Tensor:
    """How much of other classes' means each class takes, shape (C, C), zero on the diagonal (eq. 6.23).

    Expectation-maximisation over the nodes as for offsets. A step that lowers the posterior
    density is halved.
    """
    C = F.shape[1]
    T = calibration.temperature
    u = (T * (F - F.mean(1, keepdim=True))).double()
    free = torch.nonzero(~torch.eye(C, dtype=torch.bool, device=u.device).flatten())[:, 0]
    M = u.new_zeros(C, C)
    largest = float(weight.max())  # weights of any size fit into single precision as shares of it
    light, precision = (weight / largest).double(), MIXING_PRECISION / largest
    spread, shifted = calibration.spread * s2, F + F.new_tensor(calibration.offset)

    def terms(M: Tensor) -> tuple[float, Tensor, Tensor]:
        """The log density, its gradient and curvature, divided by the largest weight."""
        density, gradient = -0.5 * precision * float(M.square().sum()), -precision * M
        curvature = u.new_zeros(C * C, C * C)
        for rows in _blocks(F, _NODES):
            logits, node_weight = _margins(shifted[rows].float(), spread[rows].float(), y[rows], _NODES)
            logits.mul_(T).add_((u[rows] @ M).mT[:, :, None].float())
            own = y[None, rows, None].expand(1, -1, logits.shape[2])
            pi = torch.softmax(logits, 0)
            mine = pi.gather(0, own)[0] * node_weight
            chance = mine.sum(1, keepdim=True).clamp_min(torch.finfo(mine.dtype).tiny)
            density += float(light[rows] @ chance[:, 0].log().double())
            share = mine / chance
            both = torch.einsum("cns,dns->ncd", pi * share, pi).double()
            expected = (pi * share).sum(2).mT.double()
            gradient += u[rows].mT @ (light[rows, None] * (one_hot(y[rows], C) - expected))
            H = (torch.diag_embed(expected) - both) * light[rows, None, None]
            outer = u[rows, :, None] * u[rows, None, :]
            part = outer.flatten(1).mT @ H.flatten(1)  # [i, k, j, l] for M_ij and M_kl
            curvature += part.view(C, C, C, C).transpose(1, 2).reshape(C * C, C * C)
        return density, gradient, curvature

    density, gradient, curvature = terms(M)
    for _ in range(_MIXING_STEPS):
        H = curvature[free][:, free]
        H.diagonal().add_(precision)
        step = torch.cholesky_solve(gradient.flatten()[free, None], linalg.cholesky(H))[:, 0]
        for length in _STEP_LENGTHS:
            moved = M.flatten().index_add(0, free, length * step).view(C, C)
            higher, gradient, curvature = terms(moved)
            if higher > density:
                break
        else:
            break
        M, density = moved, higher
        if float(step.abs().max()) < _MIXING_TOLERANCE:
            break
    return M.to(F.dtype)


# --- Temperature and spread from held-out rows: ever finer grids.


_SMALLEST, _LARGEST = 0.25, 32.0
# Temperatures tried in a round, everywhere and near a known one, and rounds.
_TRIED, _TRIED_NEAR = 22, 8
_ROUNDS = 3
# The slack of held-out rows, in nats a row.
_HELD_OUT_INDIFFERENCE = 1e-4
_HELD_OUT_NODES = 64
# Spreads are powers of two; every second one is tried, then the neighbours of
# the best. The loss may rise before it falls, so none is left out.
_EXPONENTS = range(-4, 9, 2)
# From one of these to the next the best temperature moves by less than this factor.
_NEAR = math.log(4.0)
# How far, in logarithms, the nodes may be off.
_OFF = 0.2


class _Found(NamedTuple):
    """The best temperature at a spread and what it costs, in nats over all rows."""

    log_T: float
    cost: float


def fit_held_out(F: Tensor, s2: Tensor, y: Tensor) -> Calibration:
    """Temperature and spread of least log-loss on held-out rows, without offsets (eq. 9.10).

    Every second power of two as a spread, outwards from one, then the neighbours of the best.
    """
    ends = math.log(_SMALLEST), math.log(_LARGEST)
    found = {0: _best_temperature(F, s2, y, ends, _TRIED)}

    def add(exponent: int, log_T: float) -> None:
        near = max(ends[0], log_T - _NEAR), min(ends[1], log_T + _NEAR)
        best = _best_temperature(F, 2.0**exponent * s2, y, near, _TRIED_NEAR)
        prior = _NATS_PER_LOG_SPREAD * abs(exponent) * math.log(2.0)
        found[exponent] = best._replace(cost=best.cost + prior)

    for exponent in sorted(set(_EXPONENTS) - {0}, key=abs):
        add(exponent, found[exponent - int(math.copysign(2, exponent))].log_T)
    middle = min(found, key=lambda i: found[i].cost)
    for exponent in (middle - 1, middle + 1):
        add(exponent, found[middle].log_T)
    best = min(found, key=lambda i: found[i].cost)
    log_T = _refined(F, 2.0**best * s2, y, found[best].log_T)
    return Calibration(math.exp(log_T), 2.0**best, (0.0,) * F.shape[1])


def _refined(F: Tensor, s2: Tensor, y: Tensor, log_T: float) -> float:
    """The best temperature near one that fixed nodes found, by the integral that predictions use.

    It costs ten times as much as the nodes, and they are a tenth of a temperature off.
    """
    low, high = max(math.log(_SMALLEST), log_T - _OFF), min(math.log(_LARGEST), log_T + _OFF)
    tried = torch.linspace(low, high, _TRIED_NEAR + 1, dtype=torch.float64)
    least = torch.finfo(F.dtype).tiny
    own = [expected_softmax(F, s2, math.exp(t)).gather(1, y[:, None]) for t in tried.tolist()]
    losses = torch.stack([-p.clamp_min(least).log().sum(dtype=torch.float64) for p in own]).cpu()
    return float(tried[_smallest_good(losses, _HELD_OUT_INDIFFERENCE * F.shape[0])])


def _best_temperature(F: Tensor, s2: Tensor, y: Tensor, ends: tuple[float, float], n_tried: int) -> _Found:
    """Search for a temperature in ever finer grids around the best so far."""
    low, high = ends
    slack = _HELD_OUT_INDIFFERENCE * F.shape[0]
    ones = F.new_ones(F.shape[0])
    log_T, losses = torch.tensor([]), torch.tensor([])
    for _ in range(_ROUNDS):
        tried = torch.linspace(low, high, n_tried, dtype=torch.float64)
        log_T = torch.cat([log_T, tried])
        losses = torch.cat([losses, loss_curve(F, s2, y, ones, tried.exp(), n_nodes=_HELD_OUT_NODES)])
        width = (high - low) / (n_tried - 1)
        middle = float(log_T[losses <= losses.min() + slack].min())
        low, high = max(ends[0], middle - width), min(ends[1], middle + width)
    return _Found(middle, float(losses.min()))


# --- Weights of the members of a committee, from the probabilities that they give to labels left out.


# Rows that the prior is worth: equal weights, until the rows say otherwise.
_PRIOR_ROWS = 1.0
_WEIGHT_STEPS = 200
# A member with less than this share costs more time than it is worth.
_LEAST_WEIGHT = 0.05


def member_weights(proba: Tensor, weight: Tensor) -> Tensor:
    r"""Weights w of the mixture sum_m w_m p_m of greatest left-out likelihood, shape (M,) (eq. 11.3).

    Expectation-maximisation with a Dirichlet prior; members of little weight are dropped.

    Parameters
    ----------
    proba : Tensor of shape (M, N)
        What each member without a row gives to its label.
    weight : Tensor of shape (N,)
    """
    M = proba.shape[0]
    proba, weight = proba.double().clamp_min(torch.finfo(torch.float64).tiny), weight.double()
    w = proba.new_full((M,), 1.0 / M)
    for _ in range(_WEIGHT_STEPS if M > 1 else 0):
        share = w[:, None] * proba
        w = (share / share.sum(0)) @ weight + _PRIOR_ROWS / M
        w = w / w.sum()
    w = torch.where(w < _LEAST_WEIGHT, 0.0, w)
    return w / w.sum()
