"""Which latent function is the largest: its probability, the variation ratio, and its logarithm.

The variation ratio of a row is the probability that another latent function
than the favourite is the largest (eq. 6.2). Where it is too small for a
number, its logarithm still orders rows (eq. 6.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from bayesvm._core.linalg import INV_SQRT_2PI, exp_, normal_cdf

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
# Deviations beyond which the largest latent is not looked for.
_WIDTH = 7.0
_BLOCK_NUMBERS = 2_000_000
# Nats below its maximum at which an integrand ends.
_DROP = 45.0
_HALVINGS = 60
# Deviations that differ by no more than this are one scale.
_LARGEST_RATIO = 4.0
# Deviations beyond which a normal distribution function is flat to double precision.
REACH = 8.5
_PANEL_NODES = 16
# A ratio that fewer draws than this disagree about is read off Gaussian tails.
_FEWEST_WITNESSES = 10
_SMALLEST_SPREAD = 1e-10


def variation_ratio(F: Tensor, s2: Tensor) -> Tensor:
    """1 - max_c P(argmax_j f_j = c) for latents with means F and variances s2, shape (N,) (eq. 6.2)."""
    return 1.0 - argmax_probability(F, s2).amax(1).clamp_max(1.0)


def log_variation_ratio(F: Tensor, s2: Tensor, max_rivals: int = 8, n_nodes: int = 81) -> Tensor:
    """log(1 - max_c P(argmax = c)), strictly ordered where the ratio itself is zero (eqs. 6.2, 6.3).

    Sums the classes most likely to win instead of the favourite, at most
    ``max_rivals`` of them; where the ratio is not small the normalised
    probabilities are used, which sum over all classes.
    """
    C = F.shape[1]
    s = s2.sqrt()
    P = argmax_probability(F, s2)
    best = P.argmax(1)
    own = best[:, None]
    gap = (F.gather(1, own) - F) / (s2.gather(1, own) + s2).sqrt()
    gap = gap.scatter(1, own, torch.inf)
    K = min(max_rivals, C - 1)
    rivals = gap.topk(K, dim=1, largest=False).indices
    tail = torch.stack([_log_probability_that(rivals[:, k], F, s, n_nodes) for k in range(K)], 1)
    direct = 1.0 - P.gather(1, own)[:, 0]
    log_tail = torch.logsumexp(tail, 1).clamp_max(0.0)
    return torch.where(direct > 1e-3, direct.clamp_min(1e-3).log(), log_tail)


def argmax_probability(F: Tensor, s2: Tensor, n_nodes: int = 64) -> Tensor:
    r"""P(argmax_j f_j = c) = int N(f; F_c, s_c^2) prod_{j != c} Phi((f - F_j)/s_j) df (eq. 6.1).

    One grid per row serves all classes: it spans the few standard deviations
    where the maximum can be. Where deviations differ so much that it would
    miss the smallest, it is made of panels of very different widths. Rows
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
    ordered, and below what ten of S draws would say. A difference that does
    not vary at all, as with a single draw, says no more than that none of S
    draws disagrees: 1 / (S + 1).
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


def _log_phi_terms(f: Tensor, F: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log Phi(z), its derivative and second derivative with respect to f."""
    z = (f - F) / s
    log_Phi = torch.special.log_ndtr(z)
    # Far below, phi/Phi tends to -z and its logarithm would cancel.
    ratio = torch.where(z < -1e4, -z, torch.exp(-0.5 * z * z - _LOG_SQRT_2PI - log_Phi))
    return log_Phi, ratio / s, -ratio * (z + ratio) / (s * s)


def _log_probability_that(j: Tensor, F: Tensor, s: Tensor, n_nodes: int) -> Tensor:
    """Log P(argmax = j) for one class index per row, accurate far into the tail (eq. 6.3).

    The integrand is log-concave: Newton to its mode, then a trapezoid in
    f = mode + width * sinh(t), all in logarithms. Where deviations differ
    much, panels instead, between the two points where it has all but vanished.
    """
    own = j[:, None]
    F_j, s_j = F.gather(1, own), s.gather(1, own)
    # The own class drops out of the product: Phi = 1 there.
    others = F.scatter(1, own, -torch.inf)

    f = F.amax(1, keepdim=True)
    lower, upper = F_j.clone(), f.clone()
    curvature = s_j
    for _ in range(60):
        _, d1, d2 = _log_phi_terms(f, others, s)
        d1, d2 = torch.nan_to_num(d1, nan=0.0), torch.nan_to_num(d2, nan=0.0)
        slope = -(f - F_j) / s_j.square() + d1.sum(1, keepdim=True)
        curvature = 1.0 / s_j.square() - d2.sum(1, keepdim=True)
        # The mode is right of F_j; bisection guards Newton.
        lower = torch.where(slope > 0, f, lower)
        upper = torch.where(slope > 0, torch.maximum(upper, f + 2.0 * slope / curvature), f)
        step = f + slope / curvature
        inside = (step >= lower) & (step <= upper)
        new = torch.where(inside, step, 0.5 * (lower + upper))
        done = bool(((new - f).abs() <= 1e-10 * (1.0 + f.abs())).all())
        f = new
        if done:
            break
    width = curvature.rsqrt()
    t = torch.linspace(-6.0, 6.0, n_nodes, dtype=F.dtype, device=F.device)
    nodes = f + width * torch.sinh(t)
    log_weight = torch.log(torch.cosh(t)) + math.log(12.0 / (n_nodes - 1)) + width.log()
    log_p = torch.logsumexp(_log_integrand(nodes, F_j, s_j, others, s) + log_weight, 1)
    least = torch.where(torch.isfinite(others), s, s_j).amin(1)
    hard = least * _LARGEST_RATIO < s.amax(1)
    for rows in _blocks_of(hard, 256 * F.shape[1]):
        part = (t[rows] for t in (f, F_j, s_j, others, s))
        log_p[rows] = _log_by_panels(*part)
    return log_p


def _log_integrand(f: Tensor, F_j: Tensor, s_j: Tensor, others: Tensor, s: Tensor) -> Tensor:
    """Log N(f; F_j, s_j^2) prod_k Phi((f - F_k) / s_k) at nodes f (N, Q), shape (N, Q)."""
    z = (f[:, None, :] - others[:, :, None]) / s[:, :, None]
    gauss = -0.5 * ((f - F_j) / s_j).square() - _LOG_SQRT_2PI - s_j.log()
    return gauss + torch.special.log_ndtr(z).sum(1)


def _log_by_panels(mode: Tensor, F_j: Tensor, s_j: Tensor, others: Tensor, s: Tensor) -> Tensor:
    """Log of the integral of ``_log_integrand`` by panels as narrow as what lies in them."""

    def at(f: Tensor) -> Tensor:
        return _log_integrand(f, F_j, s_j, others, s)

    floor = at(mode) - _DROP
    ends = []
    for side in (-1.0, 1.0):
        # Beyond ten deviations of its own density the integrand has vanished.
        inside, outside = mode, mode + side * (10.0 * s_j + (mode - F_j).abs())
        for _ in range(_HALVINGS):
            middle = 0.5 * (inside + outside)
            above = at(middle) > floor
            inside, outside = torch.where(above, middle, inside), torch.where(above, outside, middle)
        ends.append(outside)
    # Towards the mode panels halve, for scales that are those of no class.
    share = torch.exp2(-torch.arange(24, dtype=mode.dtype, device=mode.device))
    left, right = (mode + (end - mode) * share for end in ends)
    centres = torch.where(torch.isfinite(others), others, F_j)
    x, weight = panel_nodes(centres, s, torch.cat([left, mode, right.flip(1)], 1))
    size = max(1, _BLOCK_NUMBERS // s.numel())
    logs = [at(part) for part in x.split(size, 1)]
    # Panels of no width count for nothing.
    return torch.logsumexp(torch.cat(logs, 1) + weight.log(), 1)


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
