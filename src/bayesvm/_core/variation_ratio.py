"""Which latent function is the largest: its probability, the variation ratio, and its logarithm.

The variation ratio of a row is the probability that another latent function
than the favourite is the largest (eq. 6.2). Where it is too small for a
number, its logarithm still orders rows (eq. 6.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._core.linalg import INV_SQRT_2PI, exp_, normal_cdf

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
# Deviations beyond which the largest latent is not looked for.
_WIDTH = 7.0
_BLOCK_NUMBERS = 2_000_000
# Nats below its integral at which an integrand ends.
_DROP = 40.0
_TAIL_NODES = 96
# A sum of probabilities with a logarithm below this is, to rounding, the probability of any of them.
_ROUNDS_TO_SUM = -36.0
_LARGEST_PROBABILITY = 1.0 - 2.0**-53
# Deviations beyond which a normal distribution function is flat to double precision.
REACH = 8.5
_PANEL_NODES = 16
# A ratio that fewer draws than this disagree about is read off Gaussian tails.
_FEWEST_WITNESSES = 10
_SMALLEST_SPREAD = 1e-10


def variation_ratio(F: Tensor, s2: Tensor) -> Tensor:
    """1 - max_c P(argmax_j f_j = c) for latents with means F and variances s2, shape (N,) (eq. 6.2)."""
    return 1.0 - argmax_probability(F, s2).amax(1).clamp_max(1.0)


def log_variation_ratio(F: Tensor, s2: Tensor) -> Tensor:
    """Log of the probability that any rival exceeds the favourite, shape (N,) (eq. 6.3)."""
    P = argmax_probability(F, s2)
    most, own = P.max(1)
    return log_not_largest(F, s2, own[:, None], most)


def log_not_largest(F: Tensor, s2: Tensor, own: Tensor, P: Tensor) -> Tensor:
    """Log of the probability that class ``own`` (N, 1) is not the largest, given P (N,) that it is."""
    log_p = torch.log1p(-P.clamp_max(_LARGEST_PROBABILITY))
    for rows in _blocks_of(P > 0.5, 1):  # elsewhere nothing is lost by the subtraction
        log_p[rows] = _log_tail(F[rows], s2[rows].sqrt(), own[rows])
    return log_p


def _log_tail(F: Tensor, s: Tensor, own: Tensor) -> Tensor:
    r"""The same by its own integral, for a class c that is probably the largest (eq. 6.3).

    .. math:: \log \int N(f; F_c, s_c^2) \left[ 1 - \prod_{j \ne c} \Phi((f - F_j) / s_j) \right] df

    One integral for all rivals together, its factors in logarithms: strictly
    ordered where the ratio itself is zero. A trapezoid rule where few nodes
    resolve it, else panels.
    """
    where = _where_rivals_win(F, s, own)
    spacing = (where.upper - where.lower) / (_TAIL_NODES - 1)
    grid = torch.arange(_TAIL_NODES, dtype=F.dtype, device=F.device)
    rows_at_once = max(1, _BLOCK_NUMBERS // (_TAIL_NODES * F.shape[1]))
    parts = zip(*(t.split(rows_at_once) for t in (F, s, own, where.lower + spacing * grid)), strict=True)
    log_p = torch.cat([torch.logsumexp(_log_rival_wins(*part), 1) for part in parts])
    log_p += spacing[:, 0].log()
    for rows in _blocks_of((spacing > where.step)[:, 0], 256 * F.shape[1]):
        F_r, s_r, own_r = F[rows], s[rows], own[rows]
        centres, scales = torch.cat([F_r, where.middle[rows]], 1), torch.cat([s_r, where.width[rows]], 1)
        x, w = panel_nodes(centres, scales, torch.cat([where.lower[rows], where.upper[rows]], 1))
        nodes_at_once = max(1, _BLOCK_NUMBERS // F_r.numel())
        logs = [_log_rival_wins(F_r, s_r, own_r, part) for part in x.split(nodes_at_once, 1)]
        # Panels of no width count for nothing.
        log_p[rows] = torch.logsumexp(torch.cat(logs, 1) + w.log(), 1)
    # Deviations lost beside means of many digits leave no interval; then one rival at a time is enough.
    return torch.where(torch.isfinite(log_p), log_p, where.log_pairs).clamp_max(0.0)


def argmax_probability(F: Tensor, s2: Tensor, n_nodes: int = 64) -> Tensor:
    r"""P(argmax_j f_j = c) = int N(f; F_c, s_c^2) prod_{j != c} Phi((f - F_j)/s_j) df (eq. 6.1).

    One grid per row serves all classes: it spans the few standard deviations
    where the maximum can be. Where deviations differ so much that it would
    miss the smallest, it consists of panels of very different widths. Rows
    sum to one.
    """
    s = s2.sqrt()
    lower = (F - _WIDTH * s).amax(1, keepdim=True)
    upper = (F + _WIDTH * s).amax(1, keepdim=True)
    grid = torch.linspace(0.0, 1.0, n_nodes, dtype=F.dtype, device=F.device)
    P = _winning(F, s, lower + (upper - lower) * grid, None)
    hard = _too_coarse(F, s, lower, (upper - lower) / (n_nodes - 1))
    for rows in _blocks_of(hard, 128 * F.shape[1]):
        F_r, s_r = F[rows], s[rows]
        ends = [(F_r - REACH * s_r).amax(1, keepdim=True), (F_r + REACH * s_r).amax(1, keepdim=True)]
        P[rows] = _in_slices(_winning, F_r, s_r, *panel_nodes(F_r, s_r, torch.cat(ends, 1)))
    return P / P.sum(1, keepdim=True)


def dissent(votes: Tensor, n_classes: int) -> Tensor:
    """Share of votes (S, N), class indices, that are not for the most frequent class, shape (N,)."""
    counts = torch.stack([(votes == c).sum(0) for c in range(n_classes)], 1)
    return 1.0 - counts.amax(1).double() / votes.shape[0]


def variation_ratio_of_draws(f: Tensor) -> Tensor:
    """Share of the draws (S, N, C) that disagree with most about the largest latent, shape (N,)."""
    return dissent(f.argmax(2), f.shape[2]).to(f.dtype)


def log_variation_ratio_of_draws(f: Tensor) -> Tensor:
    """Log variation ratio of draws, with a Gaussian tail from their moments where few disagree.

    With VR' the sum over rivals of the probability that such a difference
    changes its sign, the tail is 1 / (S / 10 + 1 / VR'): finite, strictly
    ordered, and below the ratio at which ten of S draws disagree. For a
    difference that does not vary at all, as with a single draw, it is that of
    no disagreement in S draws: 1 / (S + 1).
    """
    S = f.shape[0]
    own = f.mean(0).argmax(1)[None, :, None].expand(S, -1, 1)
    lead = f.gather(2, own) - f
    spread = lead.std(0, correction=0)
    varies = spread > _SMALLEST_SPREAD
    gone = torch.special.log_ndtr(-lead.mean(0) / torch.where(varies, spread, 1.0))
    gone = torch.where(varies, gone, -math.log(S + 1.0)).scatter(1, own[0], -torch.inf)
    least = _FEWEST_WITNESSES / S
    odds = torch.logsumexp(gone, 1) - math.log(least)
    tail = math.log(least) - torch.nn.functional.softplus(-odds)
    tail = tail.clamp_max(math.log1p(-1.0 / f.shape[2]))  # no class has less than its share
    seen = variation_ratio_of_draws(f)
    return torch.where(seen >= least, seen.clamp_min(least).log(), tail)


def _winning(F: Tensor, s: Tensor, x: Tensor, weight: Tensor | None) -> Tensor:
    """Sums over nodes x, (N, Q), of weight times the density of the largest being c, (N, C)."""
    z = (x[:, None, :] - F[:, :, None]) / s[:, :, None]
    Phi = normal_cdf(z)
    hazard = exp_(z.square_(), -0.5).mul_((INV_SQRT_2PI / s)[:, :, None]).div_(Phi)
    largest = Phi.prod(1)
    if weight is not None:
        largest *= weight
    return torch.matmul(hazard, largest[:, :, None])[:, :, 0]


def _in_slices(
    function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], F: Tensor, s: Tensor, x: Tensor, w: Tensor
) -> Tensor:
    """Sum of a function over the nodes, some of them at a time."""
    size = max(1, _BLOCK_NUMBERS // F.numel())
    parts = zip(x.split(size, 1), w.split(size, 1), strict=True)
    return torch.stack([function(F, s, *part) for part in parts]).sum(0)


def _blocks_of(chosen: Tensor, numbers_per_row: int) -> tuple[Tensor, ...]:
    """Indices of the chosen rows, in blocks that fit into memory."""
    rows = torch.nonzero(chosen)[:, 0]
    return rows.split(max(1, _BLOCK_NUMBERS // numbers_per_row)) if rows.numel() else ()


def _too_coarse(F: Tensor, s: Tensor, lower: Tensor, step: Tensor) -> Tensor:
    """Whether a uniform grid misses a class that may be the largest, shape (N,).

    A trapezoid rule is exact to a billionth for normal densities of deviation
    no less than its step. The largest of m equal ones varies by about their
    deviation over the root of 2 log m.
    """
    relevant = torch.where(F + _WIDTH * s >= lower, s, torch.inf)
    smallest = relevant.amin(1, keepdim=True)
    m = (relevant <= 2.0 * smallest).sum(1, keepdim=True)
    return (step * torch.sqrt(1.0 + 2.0 * m.log()) > smallest)[:, 0]


class _Where(NamedTuple):
    """Where the integrand of (6.3) has its mass.

    Attributes
    ----------
    lower, upper : Tensor of shape (N, 1)
        Outside it has vanished.
    step : Tensor of shape (N, 1)
        Of a trapezoid rule that resolves it.
    middle, width : Tensor of shape (N, C)
        Of the value at which a class and the favourite are level.
    log_pairs : Tensor of shape (N,)
        Log of the sum of the probabilities that each rival alone exceeds the favourite.
    """

    lower: Tensor
    upper: Tensor
    step: Tensor
    middle: Tensor
    width: Tensor
    log_pairs: Tensor


def _where_rivals_win(F: Tensor, s: Tensor, own: Tensor) -> _Where:
    r"""The interval in which the integrand of (6.3) is within some nats of what it makes.

    The probability is at least that of one rival alone, Phi(-lead). The
    integrand is nowhere larger than the favourite's density, and the part of
    a rival above F_j, where :math:`\Phi(-z) \le \exp(-z^2/2)`, no larger than
    that times the density of the value at which the two are level.
    """
    F_c, s_c = F.gather(1, own), s.gather(1, own)
    total = s_c.square() + s.square()
    lead = ((F_c - F) * total.rsqrt()).scatter(1, own, torch.inf)
    log_beaten = torch.special.log_ndtr(-lead)
    most = log_beaten.amax(1, keepdim=True)
    middle = F + (F_c - F) * (s.square() / total)
    width = s * s_c * total.rsqrt()
    nats = (_DROP - most - 0.5 * lead.square()).scatter(1, own, -torch.inf)
    matters = (nats > 0.0) | (lead <= 0.0)
    reach = width * (2.0 * nats.clamp_min(0.0)).sqrt()
    farthest = s_c * (2.0 * (_DROP - most)).sqrt()
    lowest, highest = F_c - farthest, F_c + farthest
    closed = (lead > 0.0) & (middle - reach > F)
    lower = torch.where(closed, middle - reach, lowest).masked_fill(~matters, torch.inf)
    upper = torch.where(lead > 0.0, middle + reach, highest).masked_fill(~matters, -torch.inf)
    narrow = width.masked_fill(~matters, torch.inf)
    least = narrow.amin(1, keepdim=True)
    m = (narrow <= 2.0 * least).sum(1, keepdim=True)
    return _Where(
        torch.maximum(lower.amin(1, keepdim=True), lowest),
        torch.minimum(upper.amax(1, keepdim=True), highest),
        least * torch.rsqrt(1.0 + 2.0 * m.log()),
        middle,
        width,
        torch.logsumexp(log_beaten, 1),
    )


def _log_rival_wins(F: Tensor, s: Tensor, own: Tensor, f: Tensor) -> Tensor:
    """Log N(f; F_c, s_c^2) [1 - prod_{j != c} Phi((f - F_j) / s_j)] at nodes f (N, Q), shape (N, Q)."""
    F_c, s_c = F.gather(1, own), s.gather(1, own)
    z = (f[:, None, :] - F.scatter(1, own, -torch.inf)[:, :, None]) / s[:, :, None]
    above = torch.special.log_ndtr(-z)  # of each rival alone
    some = torch.logsumexp(above, 1)
    # Where the sum is below rounding, it is the probability that any is above.
    below = torch.log1p(-above.exp_().clamp_max_(_LARGEST_PROBABILITY)).sum(1)
    any_above = torch.where(some < _ROUNDS_TO_SUM, some, torch.log(-torch.expm1(below)))
    return any_above - 0.5 * ((f - F_c) / s_c).square() - (_LOG_SQRT_2PI + s_c.log())


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[Tensor, Tensor]:
    """Nodes and weights on (-1, 1), from the eigenvalues of Jacobi's matrix."""
    k = torch.arange(1, _PANEL_NODES, dtype=torch.float64)
    beta = k / (4.0 * k.square() - 1.0).sqrt()
    x, v = torch.linalg.eigh(torch.diag(beta, 1) + torch.diag(beta, -1))
    return x, 2.0 * v[0].square()


def panel_nodes(F: Tensor, s: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights for functions of (f - F_j) / s_j, j = 1 to C, shape (N, Q) each.

    Around every F_j panels are at most 2 s_j wide. Their edges are multiples
    of powers of two, so that classes share them: their number grows with the
    logarithm of the ratio of the deviations and hardly with C.

    Parameters
    ----------
    F, s : Tensor of shape (N, C)
    edges : Tensor of shape (N, E)
        Further edges; the first is where the integral begins, the last where it ends.
    """
    width = torch.exp2(torch.floor(torch.log2(2.0 * s)))  # in (s, 2 s]
    first = torch.floor((F - REACH * s) / width)
    k = torch.arange(int(2.0 * REACH) + 3, dtype=F.dtype, device=F.device)
    points = (first[:, :, None] + k) * width[:, :, None]
    points = torch.clamp(points.flatten(1), edges[:, :1], edges[:, -1:])
    points = torch.cat([points, edges], 1).sort(1).values
    new = torch.ones_like(points, dtype=torch.bool)
    new[:, 1:] = points[:, 1:] > points[:, :-1]
    position = new.cumsum(1) - 1
    # Rows with fewer edges than others end in panels of no width.
    distinct = edges[:, -1:].repeat(1, int(position[:, -1].max()) + 1)
    distinct.scatter_(1, position, points)
    x, w = (t.to(F) for t in _gauss_legendre())
    half = 0.5 * distinct.diff(dim=1)[:, :, None]
    return (distinct[:, :-1, None] + half * (x + 1.0)).flatten(1), (half * w).flatten(1)
