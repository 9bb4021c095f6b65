"""Chains of posterior draws: whether they have converged, and how to leave out rows.

Rank-normalised split R-hat and effective sample sizes of Vehtari, Gelman,
Simpson, Carpenter and Bürkner (2021), and Pareto-smoothed importance sampling
(Vehtari et al., 2024). Arrays are (chains, draws, ...); every trailing entry
is a quantity of its own, and all are treated at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

# The usual limits: chains agree, and each is worth a hundred independent draws,
# or half of its draws if they are to be fewer than two hundred.
LARGEST_R_HAT = 1.05
_ENOUGH_OF_A_CHAIN = 100
_ENOUGH_SHARE = 0.5


@dataclass(frozen=True)
class Verdict:
    """Convergence of chains, for the worst of the quantities looked at.

    Attributes
    ----------
    r_hat : float
        Largest split R-hat; 1 where all chains agree (eq. 8.34).
    bulk, tail : float
        Fewest effective draws, for the middle and for the 5 % tails (eq. 8.35).
    enough : float
        How many effective draws are required.
    """

    r_hat: float
    bulk: float
    tail: float
    enough: float

    @property
    def converged(self) -> bool:
        """Whether the chains agree and are worth enough independent draws."""
        return self.r_hat < LARGEST_R_HAT and min(self.bulk, self.tail) >= self.enough


def judge(quantities: Tensor, n_draws: int) -> Verdict:
    """The verdict on draws (chains, draws, quantities) of chains that shall keep ``n_draws`` each."""
    x = quantities.double()
    return Verdict(
        float(split_r_hat(x).max()),
        float(bulk_sample_size(x).min()),
        float(tail_sample_size(x).min()),
        float(x.shape[0] * min(_ENOUGH_OF_A_CHAIN, _ENOUGH_SHARE * n_draws)),
    )


@dataclass(frozen=True)
class Chains:
    """Draws of several chains, evenly spaced after warm-up.

    Attributes
    ----------
    v : Tensor of shape (K, S, J, P)
        Whitened inducing values. If ``centred``, the part common to all
        classes is left out: the likelihood does not see it, and its
        posterior is its prior.
    f : Tensor of shape (K, S, N, J)
        Latents of the training rows, in single precision if they are many.
    log_likelihood : Tensor of shape (K, S, N)
        Of each row, for one unit of weight.
    verdict : Verdict
    steps, thinning : int
        Transitions of each chain altogether, and between kept draws.
    centred, fitc : bool
        Whether v and f are centred over classes, and whether f has the
        residual of each row in it.
    """

    v: Tensor
    f: Tensor
    log_likelihood: Tensor
    verdict: Verdict
    steps: int
    thinning: int
    centred: bool
    fitc: bool

    @property
    def converged(self) -> bool:
        """Whether the chains have converged by the usual limits."""
        return self.verdict.converged

    def merged(self) -> Tensor:
        """The draws of all chains, shape (K S, J, P)."""
        return self.v.flatten(0, 1)


# --- Convergence.


# Chains with fewer draws than this give no estimate of autocorrelation.
_FEWEST_DRAWS = 8
_TAILS = (0.05, 0.95)


def split_r_hat(x: Tensor) -> Tensor:
    """R-hat of half chains, the larger of that of ranks and that of folded ranks, shape (...) (eq. 8.34).

    One where chains agree. Infinite where there are too few draws to tell.
    """
    if x.shape[1] < _FEWEST_DRAWS:
        return x.new_full(x.shape[2:], torch.inf)
    x = _halves(x)
    ordered = x.flatten(0, 1).sort(0).values
    n = ordered.shape[0]
    folded = (x - 0.5 * (ordered[n // 2 - 1] + ordered[n // 2])).abs()
    return torch.maximum(_r_hat(_normal_scores(x)), _r_hat(_normal_scores(folded)))


def bulk_sample_size(x: Tensor) -> Tensor:
    """Effective sample size for the bulk of the distribution, shape (...) (eq. 8.35)."""
    if x.shape[1] < _FEWEST_DRAWS:
        return x.new_zeros(x.shape[2:])
    return _sample_size(_normal_scores(_halves(x)))


def tail_sample_size(x: Tensor) -> Tensor:
    """Effective sample size for the 5 % and 95 % quantiles, the smaller one, shape (...) (eq. 8.35)."""
    if x.shape[1] < _FEWEST_DRAWS:
        return x.new_zeros(x.shape[2:])
    flat = x.flatten(0, 1).sort(0).values
    sizes = []
    for share in _TAILS:
        place = share * (flat.shape[0] - 1)
        below = int(place)
        quantile = torch.lerp(flat[below], flat[min(below + 1, flat.shape[0] - 1)], place - below)
        sizes.append(_sample_size(_halves((x <= quantile).to(x.dtype))))
    return torch.minimum(*sizes)


def _halves(x: Tensor) -> Tensor:
    """First and second half of every chain as chains; an odd draw in the middle is left out."""
    half = x.shape[1] // 2
    return torch.cat([x[:, :half], x[:, x.shape[1] - half :]])


def _normal_scores(x: Tensor) -> Tensor:
    """Normal quantiles of the ranks among all draws; ties share their mean rank."""
    flat = x.flatten(0, 1).movedim(0, -1).contiguous()
    ordered = flat.sort(-1).values
    first = torch.searchsorted(ordered, flat, right=False)
    last = torch.searchsorted(ordered, flat, right=True)
    rank = 0.5 * (first + last + 1).to(x.dtype)
    scores = torch.special.ndtri((rank - 0.375) / (flat.shape[-1] + 0.25))
    return scores.movedim(-1, 0).reshape(x.shape)


def _r_hat(x: Tensor) -> Tensor:
    n = x.shape[1]
    within = x.var(1).mean(0)
    between = x.mean(1).var(0)
    # A quantity that never moves agrees with itself.
    ratio = torch.where(between > 0.0, between / within, torch.zeros_like(between))
    return (ratio + (n - 1) / n).sqrt()


def _sample_size(x: Tensor) -> Tensor:
    """Draws over autocorrelation time, with Geyer's initial positive, monotone sequence."""
    K, n = x.shape[:2]
    covariance = _autocovariance(x).mean(0)  # (n, ...)
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + x.mean(1).var(0) if K > 1 else covariance[0]
    moving = total > 0.0
    total = torch.where(moving, total, torch.ones_like(total))
    rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    even, odd = rho[0 : n - n % 2 : 2], rho[1::2]
    # The last pairs are noise, and one must be left to end the sequence.
    pairs = (even + odd)[: max(1, (n - 1) // 2 - 1)]
    # The first pair always counts; after it the sequence ends where a pair is negative.
    positive = torch.ones_like(pairs, dtype=torch.bool)
    positive[1:] = (pairs[1:] >= 0.0).cumprod(0).bool() & (pairs[0] > 0.0)
    steady = torch.where(positive, pairs, torch.zeros_like(pairs)).cummin(0).values
    steady = torch.where(positive, steady, torch.zeros_like(steady))
    end = positive.sum(0, keepdim=True)
    beyond = even.gather(0, end.clamp_max(even.shape[0] - 1))[0].clamp_min(0.0)
    time = -1.0 + 2.0 * steady.sum(0) + beyond
    draws = float(K * n)
    size = draws / time.clamp_min(1.0 / math.log10(draws))
    return torch.where(moving, size, torch.full_like(size, draws))


def _autocovariance(x: Tensor) -> Tensor:
    """Of every chain at all lags, divided by the number of draws, shape (K, n, ...)."""
    n = x.shape[1]
    centred = x - x.mean(1, keepdim=True)
    length = 2 ** math.ceil(math.log2(2 * n))
    spectrum = torch.fft.rfft(centred, n=length, dim=1)
    power = spectrum.real.square() + spectrum.imag.square()
    return torch.fft.irfft(torch.complex(power, torch.zeros_like(power)), n=length, dim=1)[:, :n] / n


# --- Leaving out rows by weighting draws: Pareto-smoothed importance sampling (eq. 8.39).


# Beyond this shape no affordable number of draws would do.
RELIABLE_SHAPE = 0.7
_FEWEST_TAIL = 5
# With a tail too short to judge, no draw may have more than this share.
_LARGEST_SHARE = 0.1
_PRIOR_SHAPE, _PRIOR_DRAWS = 0.5, 10.0


class SmoothedWeights(NamedTuple):
    """Weights of draws, and how far they can be trusted.

    Attributes
    ----------
    weight : Tensor of shape (S, N)
        Sum to one over draws.
    shape : Tensor of shape (N,)
        Of the Pareto distribution that fits the largest ratios; below 0.7 is good.
    """

    weight: Tensor
    shape: Tensor


def smoothed_weights(log_ratio: Tensor) -> SmoothedWeights:
    """Weights proportional to exp(log_ratio) (S, N), tails those of order statistics (eq. 8.39)."""
    S = log_ratio.shape[0]
    x = log_ratio - log_ratio.amax(0)
    length = math.ceil(min(S / 5, 3.0 * math.sqrt(S)))
    if length < _FEWEST_TAIL:
        weight = torch.softmax(x, 0)
        return SmoothedWeights(weight, _shape_without_tail(weight))
    ordered, order = x.sort(0)
    floor = math.log(torch.finfo(x.dtype).tiny)
    cut = ordered[-length - 1].clamp_min(floor).exp()
    excess = ordered[-length:].exp() - cut
    counted = excess > 0.0
    n = counted.sum(0)
    shape, scale = _pareto(excess, counted, n)
    # Expected order statistics of as many draws as exceed the cut.
    rank = (counted.cumsum(0).to(x) - 0.5).clamp_min(0.0) / n.clamp_min(1)
    smooth = cut + _pareto_quantile(rank, shape, scale)
    usable = counted & (n >= _FEWEST_TAIL) & shape.isfinite()
    tail = torch.where(usable, smooth.clamp_max(1.0).log(), ordered[-length:])
    x = x.scatter(0, order[-length:], tail)
    weight = torch.softmax(x, 0)
    return SmoothedWeights(weight, torch.where(n >= _FEWEST_TAIL, shape, _shape_without_tail(weight)))


def resampled(weight: Tensor, n_draws: int) -> Tensor:
    """Indices of draws, (n_draws, N), that occur as often as their weights (S, N) say, evenly spread."""
    steps = (torch.arange(n_draws, device=weight.device).to(weight) + 0.5) / n_draws
    filled = weight.cumsum(0).mT.contiguous()
    places = (steps * filled[:, -1:]).contiguous()
    return torch.searchsorted(filled, places).clamp_max(weight.shape[0] - 1).mT


def _shape_without_tail(weight: Tensor) -> Tensor:
    """Nearly equal weights need no tail; otherwise the shape is unknown."""
    fine = weight.amax(0) <= _LARGEST_SHARE
    return torch.where(fine, torch.zeros_like(weight[0]), torch.full_like(weight[0], torch.inf))


def _pareto(excess: Tensor, counted: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """Shape and scale of generalised Pareto distributions, one for the counted numbers of each column."""
    M = excess.shape[0]
    some = n.clamp_min(1)
    points = 30 + some.to(torch.float64).sqrt().long()  # of the grid over b, as many as the numbers need
    grid = torch.arange(1, int(points.max()) + 1, device=n.device)[:, None].to(excess)
    inside = grid <= points
    # The first quartile of the counted numbers, which come last.
    place = (M - some + (some / 4 + 0.5).long() - 1).clamp(0, M - 1)
    quartile = excess.gather(0, place[None]).clamp_min(torch.finfo(excess.dtype).tiny)
    largest = excess[-1:].clamp_min(torch.finfo(excess.dtype).tiny)
    b = (1.0 - (points / (grid - 0.5)).sqrt()) / (3.0 * quartile) + 1.0 / largest
    b = torch.where(inside, b, torch.zeros_like(b))

    def mean_log(b: Tensor) -> Tensor:
        logs = torch.log1p(-b[:, None] * torch.where(counted, excess, torch.zeros_like(excess)))
        return logs.sum(1) / some

    k = mean_log(b)
    score = n * ((-b / k).log() - k - 1.0)
    score = torch.where(inside & score.isfinite(), score, torch.full_like(score, -torch.inf))
    share = torch.softmax(score, 0)
    share = torch.where(share >= 10.0 * torch.finfo(share.dtype).eps, share, torch.zeros_like(share))
    mean_b = ((b * share).sum(0) / share.sum(0))[None]
    k = mean_log(mean_b)[0]
    scale = -k / mean_b[0]
    # A weak prior regularises short tails.
    return (n * k + _PRIOR_DRAWS * _PRIOR_SHAPE) / (n + _PRIOR_DRAWS), scale


def _pareto_quantile(p: Tensor, shape: Tensor, scale: Tensor) -> Tensor:
    safe = torch.where(shape.abs() < 1e-12, torch.ones_like(shape), shape)
    curved = torch.expm1(-safe * torch.log1p(-p)) / safe
    return scale * torch.where(shape.abs() < 1e-12, -torch.log1p(-p), curved)
