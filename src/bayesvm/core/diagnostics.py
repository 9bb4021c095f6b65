r"""Have chains converged, and how many independent draws are they worth?

Rank-normalised split R-hat and effective sample sizes of Vehtari, Gelman,
Simpson, Carpenter and Bürkner (2021). Arrays are (chains, draws, ...); every
trailing entry is a quantity of its own, and all are treated at once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["bulk_sample_size", "split_r_hat", "tail_sample_size"]

# Fewer draws in a chain than this say nothing about autocorrelation.
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
    """How many independent draws would say as much about the middle, shape (...) (eq. 8.35)."""
    if x.shape[1] < _FEWEST_DRAWS:
        return x.new_zeros(x.shape[2:])
    return _sample_size(_normal_scores(_halves(x)))


def tail_sample_size(x: Tensor) -> Tensor:
    """The smaller one of those for the 5 % and the 95 % quantile, shape (...) (eq. 8.35)."""
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
