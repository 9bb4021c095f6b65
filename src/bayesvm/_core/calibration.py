"""How latents become class probabilities: temperature, spread, mixing, weights.

Equations 6.7, 6.9 and 11.3.

The first three are fitted to leave-one-out latents, ``fit_calibration``, and to
left-out probabilities the weights of a committee, ``member_weights``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from bayesvm._core import linalg
from bayesvm._core.linalg import LOG2_E
from bayesvm._core.predictive import margins_at_nodes

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
    """Class probabilities are E softmax(T f), with Var f multiplied by the spread (eq. 6.7).

    Means are mixed over the classes first, where there is a matrix for it (eq. 6.9).
    Of a committee each member has its own, with its weight in the mixture (eq. 11.2).
    """

    temperature: float
    spread: float = 1.0
    weight: float = 1.0
    mixing: tuple[tuple[float, ...], ...] | None = None

    def of(self, F: Tensor, s2: Tensor) -> tuple[Tensor, Tensor, float]:
        """Means, variances and temperature of calibrated latents, as ``expected_softmax`` takes them."""
        return self.mean(F), self.spread * s2, self.temperature

    def at_draws(self, mean: Tensor, deviations: Tensor) -> Tensor:
        """Softmax of calibrated latents: a mean (N, C) and deviations (S, N, C) of draws (eq. 8.38)."""
        return torch.softmax(self.temperature * (self.mean(mean) + self.spread**0.5 * deviations), -1)

    def mean(self, F: Tensor) -> Tensor:
        """Mixed means (..., C) (eq. 6.9)."""
        if self.mixing is None:
            return F
        return F + (F - F.mean(-1, keepdim=True)) @ F.new_tensor(self.mixing)


def loss_curve(
    F: Tensor,
    s2: Tensor | Deviations,
    y: Tensor,
    weight: Tensor,
    temperatures: Tensor,
    n_nodes: int = _NODES,
) -> Tensor:
    """Weighted log-loss of E softmax(T f), summed over the rows, at each temperature (eq. 6.7).

    The latents at the nodes are computed once; a temperature then costs one
    power per row, node and class. Single precision: the curve is compared at
    a thousandth of a nat, and this is most of what follows a small fit.
    """
    curve = [0.0] * len(temperatures)
    for rows in _blocks(F, n_nodes):
        behind, node_weight = _margins(F[rows].float(), s2[rows].float(), y[rows], n_nodes)
        scratch = torch.empty_like(behind)
        for i, T in enumerate(temperatures.tolist()):
            odds = torch.mul(behind, LOG2_E * T, out=scratch).exp2_()
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


# --- Temperature and spread: on a grid.


# Down to where latents say next to nothing: rows of noise then get the class
# frequencies (ten shapes: confidence .040 above accuracy with a smallest temperature of 1/4, .017 with this).
TEMPERATURES = torch.tensor([2.0 ** (i / 3 - 6.0) for i in range(34)], dtype=torch.float64)
# Classes of few rows move their latents by a small part of the margin.
WIDE_TEMPERATURES = torch.tensor([2.0 ** (i / 3 - 6.0) for i in range(49)], dtype=torch.float64)
# The posterior of the hinge is wider than its errors, most of all where few rows tell classes well apart
# (docs/defaults.md). What a spread must gain, in nats for each unit of its logarithm, keeps others at one.
SPREADS = torch.tensor([2.0 ** (-0.5 * i) for i in range(21)], dtype=torch.float64)
NATS_PER_LOG_SPREAD = 5.0
# Most classes whose latents are mixed: the steps solve for C^2 numbers.
MOST_MIXED = 20
# On separable data ever larger temperatures look ever better by nothing:
# take the smallest that is as good to this many nats a row.
_INDIFFERENCE = 1e-3
_STRIDE = 3


def fit_calibration(
    F: Tensor,
    s2: Tensor | Deviations,
    y: Tensor,
    weight: Tensor,
    mixed: bool = True,
    wide: bool = False,
) -> Calibration:
    """The calibration of least leave-one-out log-loss plus priors (eqs. 6.7, 6.9).

    Spreads are tried from one downwards until they no longer pay. The best temperature moves little
    from one spread to the next, so only its neighbourhood is searched after the first; if ``wide``,
    further out. Given both, the means are mixed.
    """
    C = F.shape[1]
    temperatures = WIDE_TEMPERATURES if wide else TEMPERATURES
    n, slack = len(temperatures), _INDIFFERENCE * float(weight.sum())
    curve = _coarse_to_fine(lambda i: loss_curve(F, s2, y, weight, temperatures[i]), slack, n)
    cost, spread = float(curve.min()), 1.0
    for smaller in SPREADS[1:].tolist():
        middle = int(curve.argmin())
        near = slice(max(0, middle - 3), min(middle + 2, n))
        tried = torch.full_like(curve, math.inf)
        tried[near] = loss_curve(F, smaller * s2, y, weight, temperatures[near])
        new_cost = float(tried.min()) - NATS_PER_LOG_SPREAD * math.log(smaller)
        if new_cost >= cost:
            break
        curve, cost, spread = tried, new_cost, smaller
    T = float(temperatures[smallest_good(curve, slack)])
    if not mixed or not 3 <= C <= MOST_MIXED:
        return Calibration(T, spread)
    mixing = fit_mixing(F, spread * s2, y, weight, T)
    return Calibration(T, spread, mixing=tuple(map(tuple, mixing.tolist())))


def _coarse_to_fine(losses: Callable[[list[int]], Tensor], slack: float, n: int) -> Tensor:
    """The curve where it matters, infinity elsewhere: around its minimum and where it comes within the slack.

    It has one valley, so every third temperature shows where to look closer.
    """
    curve = torch.full((n,), math.inf, dtype=torch.float64)
    coarse = list(range(0, n, _STRIDE))
    curve[coarse] = losses(coarse)
    least, first = int(curve.argmin()), smallest_good(curve, slack)
    closer = {*range(first - _STRIDE + 1, first), *range(least - _STRIDE + 1, least + _STRIDE)}
    fine = sorted(closer & set(range(n)) - set(coarse))
    curve[fine] = losses(fine)
    return curve


def smallest_good(curve: Tensor, slack: float) -> int:
    """Which is the smallest temperature whose loss is within the slack of the least."""
    return int(torch.nonzero(curve <= curve.min() + slack)[0, 0])


# --- Mixing: what the latents of other classes say about a class, by expectation-maximisation.


# Of the normal prior on every number of the matrix. The log-loss of 34 small sets in four splits falls by
# 1.1 %, on 73 % of them; on noise mixing does nothing (docs/defaults.md).
MIXING_PRECISION = 10.0
_MIXING_STEPS = 5
_MIXING_TOLERANCE = 0.05
_STEP_LENGTHS = (1.0, 0.5, 0.25)


def fit_mixing(F: Tensor, s2: Tensor | Deviations, y: Tensor, weight: Tensor, T: float) -> Tensor:
    """How much of other classes' means each class takes, shape (C, C), zero on the diagonal (eq. 6.9).

    Expectation-maximisation over the nodes, each time with Newton's step for the multinomial
    logistic model that remains. A step that lowers the posterior density is halved.
    """
    C = F.shape[1]
    u = (T * (F - F.mean(1, keepdim=True))).double()
    free = torch.nonzero(~torch.eye(C, dtype=torch.bool, device=u.device).flatten())[:, 0]
    M = u.new_zeros(C, C)
    largest = float(weight.max())  # weights of any size fit into single precision as shares of it
    light, precision = (weight / largest).double(), MIXING_PRECISION / largest

    def terms(M: Tensor) -> tuple[float, Tensor, Tensor]:
        """The log density, its gradient and curvature, divided by the largest weight."""
        density, gradient = -0.5 * precision * float(M.square().sum()), -precision * M
        curvature = u.new_zeros(C * C, C * C)
        for rows in _blocks(F, _NODES):
            logits, node_weight = _margins(F[rows].float(), s2[rows].float(), y[rows], _NODES)
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
