"""Temperature, spread and offsets of class probabilities, from leave-one-out latents (eqs. 6.7, 6.9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core.elementwise import LOG2_E
from bayesvm._core.predictive import margins_at_nodes
from bayesvm._fit import defaults

FloatArray = npt.NDArray[np.float64]

TEMPERATURES: FloatArray = 2.0 ** np.linspace(-2.0, 5.0, 22)
SPREADS: FloatArray = 2.0 ** -np.arange(0.0, 4.5, 0.5)
# Classes of few rows move their latents by a small part of the margin, and of what is uncertain:
# temperatures beyond the others go with spreads beyond the others.
WIDE_TEMPERATURES: FloatArray = np.concatenate([TEMPERATURES, 2.0 ** np.linspace(16.0 / 3.0, 10.0, 15)])
WIDE_SPREADS: FloatArray = 2.0 ** -np.arange(0.0, 10.5, 0.5)
# On separable data ever larger temperatures look ever better by nothing:
# take the smallest that is as good to this many nats a row.
_INDIFFERENCE = 1e-3
# Nats that a spread must gain for each unit of its logarithm: a prior that
# keeps small data sets at one (docs/defaults.md).
_NATS_PER_LOG_SPREAD = 5.0
_BLOCK_NUMBERS = 200_000
_NODES = 32
_STRIDE = 3
_OFFSET_STEPS = 10
_OFFSET_TOLERANCE = 0.02
_LARGEST_LOG_ODDS = 30.0


@dataclass(frozen=True)
class Deviations:
    """Draws of latents less their means, (N, C, S): they stand where variances of Gaussians else stand."""

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
    """How latents become class probabilities: E softmax(T (f + offset)) with Var f scaled by the spread."""

    temperature: float
    spread: float
    offset: tuple[float, ...]


def loss_curve(
    F: Tensor,
    s2: Tensor | Deviations,
    y: Tensor,
    weight: Tensor,
    temperatures: FloatArray,
    log_odds: Tensor | None = None,
) -> FloatArray:
    """Weighted sums over rows of the log-loss of softmax(T f + log_odds) at each temperature.

    The latents at the nodes are computed once; a temperature then costs one
    power per row, node and class. Single precision: the curve is compared at
    a thousandth of a nat, and this is most of what follows a small fit.
    """
    size = max(1, _BLOCK_NUMBERS // (_NODES * F.shape[1]))
    curve = np.zeros(len(temperatures))
    for start in range(0, F.shape[0], size):
        rows = slice(start, start + size)
        behind, node_weight = _margins(F[rows].float(), s2[rows].float(), y[rows])
        scratch = torch.empty_like(behind)
        ahead = None if log_odds is None else (log_odds[:, None] - log_odds[y[rows]]).exp().float()
        for i, T in enumerate(temperatures):
            odds = torch.mul(behind, LOG2_E * float(T), out=scratch).exp2_()
            if ahead is not None:
                odds.mul_(ahead[:, :, None])
            p = odds.sum(0).reciprocal_() @ node_weight
            log_p = p.clamp_min_(torch.finfo(p.dtype).tiny).log_().to(weight.dtype)
            curve[i] -= float(torch.dot(weight[rows], log_p))
    return curve


def fit_calibration(
    F: Tensor,
    s2: Tensor | Deviations,
    y: Tensor,
    weight: Tensor,
    offsets: bool = True,
    wide: bool = False,
    known: Tensor | None = None,
) -> Calibration:
    """Temperature, spread and offsets of least leave-one-out log-loss, within their priors' reach.

    Spreads are tried from one downwards until they no longer pay. The best
    temperature moves little from one spread to the next, so only its
    neighbourhood is searched after the first, and at last together with the
    offsets. Both are looked for further out if ``wide``; ``known`` is that of ``fit_offsets``.
    """
    temperatures, spreads = (WIDE_TEMPERATURES, WIDE_SPREADS) if wide else (TEMPERATURES, SPREADS)
    slack = _INDIFFERENCE * float(weight.sum())
    n = len(TEMPERATURES)
    curve = np.full(len(temperatures), np.inf)
    curve[:n] = _coarse_to_fine(lambda i: loss_curve(F, s2, y, weight, temperatures[i]), slack, n)
    cost, spread = float(curve.min()), 1.0
    for smaller in spreads[1:]:
        n = len(TEMPERATURES) if smaller >= SPREADS[-1] else len(temperatures)
        middle = int(curve.argmin())
        near = np.arange(max(0, middle - 3), min(middle + 2, n))
        tried = np.full_like(curve, np.inf)
        tried[near] = loss_curve(F, float(smaller) * s2, y, weight, temperatures[near])
        new_cost = float(tried.min()) - _NATS_PER_LOG_SPREAD * float(np.log(smaller))
        if new_cost >= cost:
            break
        curve, cost, spread = tried, new_cost, float(smaller)
    s2 = spread * s2
    if not offsets:
        return Calibration(float(temperatures[_smallest_good(curve, slack)]), spread, (0.0,) * F.shape[1])
    n = len(TEMPERATURES) if spread >= SPREADS[-1] else len(temperatures)
    chosen, log_odds = _together(F, s2, y, weight, curve, temperatures[:n], slack, known)
    T = float(temperatures[chosen])
    return Calibration(T, spread, tuple((log_odds / T).tolist()))


def _together(
    F: Tensor,
    s2: Tensor | Deviations,
    y: Tensor,
    weight: Tensor,
    curve: FloatArray,
    temperatures: FloatArray,
    slack: float,
    known: Tensor | None,
) -> tuple[int, Tensor]:
    """Which temperature, and what log-odds of the classes: the loss with the best offsets goes down.

    ``curve`` is the loss without offsets and says where to start. Where a few
    classes have most of the rows it is far off: there a temperature does what
    offsets should. Each fitted given the other, both would stay as they are,
    since a smaller one needs a smaller other.
    """
    fitted: dict[int, tuple[float, Tensor]] = {}

    def loss(i: int, near: int) -> float:
        if not 0 <= i < len(temperatures):
            return float("inf")
        if i not in fitted:
            start = fitted[near][1] if near in fitted else None
            b = fit_offsets(F, s2, y, weight, float(temperatures[i]), known, start)
            fitted[i] = float(loss_curve(F, s2, y, weight, temperatures[[i]], b)[0]), b
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
    return i, fitted[i][1]


def _margins(F: Tensor, s2: Tensor | Deviations, y: Tensor) -> tuple[Tensor, Tensor]:
    """Latents minus that of class y, (C, N, S), at fixed nodes of Gaussians or at draws, and weights (S,)."""
    if not isinstance(s2, Deviations):
        return margins_at_nodes(F, s2, y, _NODES)
    f = (F[..., None] + s2.d).transpose(0, 1).contiguous()
    n_draws = f.shape[2]
    own = f.gather(0, y[None, :, None].expand(1, -1, n_draws))
    return f.sub_(own.clone()), torch.full((n_draws,), 1.0 / n_draws, dtype=f.dtype, device=f.device)


def _smallest_good(curve: FloatArray, slack: float) -> int:
    """Which is the smallest temperature whose loss is within the slack of the least."""
    return int(np.flatnonzero(curve <= curve.min() + slack)[0])


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
    size = max(1, _BLOCK_NUMBERS // (_NODES * C))
    largest = float(weight.max())  # weights of any size fit into single precision as shares of it
    counts = zeros.index_add(0, y, weight.double())
    enough = counts >= defaults.FEWEST_OF_CLASS if known is None else known
    classes = torch.nonzero(enough)[:, 0]
    if len(classes) < 2:
        return zeros.to(F.dtype)
    light = torch.where(enough[y], weight / largest, 0.0).float()
    for _ in range(_OFFSET_STEPS):
        gradient = (counts - defaults.OFFSET_PRECISION * b)[classes]
        curvature = defaults.OFFSET_PRECISION * torch.eye(len(classes), dtype=b.dtype, device=b.device)
        for first in range(0, F.shape[0], size):
            rows = slice(first, first + size)
            logits, node_weight = _margins(F[rows].float(), s2[rows].float(), y[rows])
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


def _coarse_to_fine(
    losses: Callable[[npt.NDArray[np.int64]], FloatArray], slack: float, n_temperatures: int
) -> FloatArray:
    """The curve where it matters, infinity elsewhere: around its minimum and where it comes within the slack.

    It has one valley, so every third temperature shows where to look closer.
    """
    curve = np.full(n_temperatures, np.inf)
    coarse = np.arange(0, len(curve), _STRIDE)
    curve[coarse] = losses(coarse)
    least, first = int(curve.argmin()), _smallest_good(curve, slack)
    closer = {*range(first - _STRIDE + 1, first), *range(least - _STRIDE + 1, least + _STRIDE)}
    fine = np.array(sorted(i for i in closer if 0 <= i < len(curve) and np.isinf(curve[i])))
    curve[fine] = losses(fine)
    return curve
