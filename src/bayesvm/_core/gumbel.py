r"""The softmax of Gaussian latents as the largest of them plus Gumbel noise, on a lattice (eqs. 6.13, 6.14).

Softmax is what an argmax becomes under independent Gumbel noise, so its
expectations are integrals in one dimension, symmetric in the classes. A
Gaussian is replaced by weights on a lattice; the distribution function of a
latent plus noise is then a product with a matrix that is the same for all
classes and rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._core.linalg import exp_, normal_cdf

# Deviations of a latent beyond which it is not looked for.
_TAIL = 5.5
# Gumbel's distribution function is below 2e-9 this far below its mode and within 1e-6 of one this far above.
_BELOW, _ABOVE = 3.0, 14.0
# A class that is never closer than this to the largest needs the mean of its exponential alone.
_FAR = 3.0
_STEP = 0.5
# On coarser lattices that much of every variance, in steps, is part of the noise.
_SHARED = 0.7
# Steps that the least deviation of a coarser lattice has, and of the finest.
_FEWEST_STEPS, _FEWEST_OF_FINEST = 1.2, 0.7
# Gauss-Hermite nodes of latents that are narrower.
_NODES = ((-math.sqrt(3.0), 1.0 / 6.0), (0.0, 2.0 / 3.0), (math.sqrt(3.0), 1.0 / 6.0))
_MOST_POINTS = 1024
_POINTS = 8  # the number of points is a multiple
_BLOCK_NUMBERS = 400_000
_NEGLIGIBLE = 1e-30
_SHARED_IS_ALL = 40.0
_EULER = 0.5772156649015329


class Part(NamedTuple):
    """Integrands for some rows, on the points of their lattice.

    Attributes
    ----------
    rows : Tensor of shape (n,)
    x : Tensor of shape (n, K)
        Values of the largest latent plus noise.
    mass : Tensor of shape (n, K)
        Probability that it is below, times the step.
    hazard : Tensor of shape (n, C, K)
        Density over distribution function of each class.
    surprise : Tensor of shape (n, C, K) or None
        The same with every value weighted by its noise.
    """

    rows: Tensor
    x: Tensor
    mass: Tensor
    hazard: Tensor
    surprise: Tensor | None


def largest(F: Tensor, s: Tensor, surprise: bool = False) -> Iterator[Part]:
    """The largest of latents N(F, s^2) plus Gumbel noise, for blocks of rows with like lattices (eq. 6.13).

    The lattice of a row depends on that row alone.
    """
    s = s.clamp_max(1e30)
    low = (F - _TAIL * s).amax(1) - _BELOW
    tilted = F + torch.minimum(0.5 * s.square(), _TAIL * s)
    high = torch.maximum(tilted.amax(1) + _ABOVE, (F + _TAIL * s).amax(1) + _BELOW)
    near = F + _TAIL * s > (low - _FAR)[:, None]
    narrowest = torch.where(near, s, torch.inf).amin(1) / _FEWEST_STEPS
    step = torch.exp2(torch.floor(torch.log2(torch.maximum(narrowest, (high - low) / _MOST_POINTS))))
    step = torch.where(step < 1.0, _STEP, step)
    start = torch.minimum(torch.where(near, F - _TAIL * s, torch.inf).amin(1), low)
    n_points, n_before = (
        torch.ceil(length / (_POINTS * step)).long().clamp_max(2 * _MOST_POINTS) * _POINTS
        for length in (high - low, low - start)
    )
    keys = torch.stack([step.log2().long(), n_points, n_before], 1)
    for key in torch.unique(keys, dim=0).tolist() if F.shape[0] > 1 else keys.tolist():
        rows = torch.nonzero((keys == keys.new_tensor(key)).all(1))[:, 0]
        size = max(1, _BLOCK_NUMBERS // (F.shape[1] * (key[1] + key[2])))
        for block in rows.split(size):
            yield _part(block, F[block], s[block], low[block], near[block], tuple(key), surprise)


def _part(
    rows: Tensor, F: Tensor, s: Tensor, low: Tensor, near: Tensor, key: tuple[int, ...], surprise: bool
) -> Part:
    exponent, n_points, n_before = key
    step = 2.0**exponent
    if step > _STEP:  # only where deviations differ a thousandfold is one of them less
        s = s.clamp_min(_FEWEST_STEPS * step)
        deviation = (s.square() - (_SHARED * step) ** 2).sqrt()
        wide = near
    else:
        deviation, wide = s, near & (s >= _FEWEST_OF_FINEST * step)
    n, C = F.shape
    a = (F - low[:, None]).flatten()
    points = step * torch.arange(n_points, dtype=F.dtype, device=F.device)
    H, h, e = (F.new_empty(n * C, n_points) for _ in range(3))
    chosen = torch.nonzero(wide.flatten())[:, 0]
    if len(chosen):
        matrices = [M.to(F) for M in _noise(step, n_points, n_before)[: 3 if surprise else 2]]
        y = step * torch.arange(-n_before, n_points, dtype=F.dtype, device=F.device)
        w = (y - a[chosen, None]).div_(deviation.flatten()[chosen, None]).square_()
        w = exp_(w, -0.5)
        w /= w.sum(1, keepdim=True)
        for out, M in zip((H, h, e), matrices, strict=False):
            out[chosen] = w @ M
    sigma = s.flatten()
    chosen = torch.nonzero((near & ~wide).flatten())[:, 0]
    if len(chosen):
        for out in (H, h, e):
            out[chosen] = 0.0
        for z, weight in _NODES:
            f = a[chosen] + z * sigma[chosen]
            log_t = f[:, None] - points
            t = torch.exp(log_t)
            cdf = torch.exp(-t).mul_(weight)
            H[chosen] += cdf
            density = t.mul_(cdf)
            h[chosen] += density
            if surprise:
                e[chosen] -= density * log_t
    hazard = h.div_(H.clamp_min(_NEGLIGIBLE))
    if surprise:
        e.div_(H.clamp_min(_NEGLIGIBLE))
    chosen = torch.nonzero(~near.flatten())[:, 0]
    if len(chosen):
        tilt = torch.minimum(0.5 * sigma[chosen].square(), _TAIL * sigma[chosen])
        log_t = (a[chosen] + tilt)[:, None] - points
        t = torch.exp(log_t)
        hazard[chosen], H[chosen] = t, torch.exp(-t)
        if surprise:
            e[chosen] = t * (tilt.neg()[:, None] - log_t)
    mass = H.view(n, C, n_points).prod(1).mul_(step)
    noise = e.view(n, C, n_points) if surprise else None
    return Part(rows, low[:, None] + points, mass, hazard.view(n, C, n_points), noise)


@lru_cache(maxsize=64)
def _noise(step: float, n_points: int, n_before: int) -> tuple[Tensor, Tensor, Tensor]:
    """Distribution function, density and density times value of the noise between all points, (I, K) each."""
    n = n_points + n_before
    x = step * torch.arange(-n, n + 1, dtype=torch.float64)
    shared = _SHARED * step if step > _STEP else 0.0
    if shared > _SHARED_IS_ALL:  # Gumbel's own shape is lost: its mean and variance are left
        variance = shared**2 + math.pi**2 / 6.0
        u = (x - _EULER) / math.sqrt(variance)
        G, g = normal_cdf(u), torch.exp(-0.5 * u.square()) / math.sqrt(2.0 * math.pi * variance)
        v = g * (_EULER + math.pi**2 / 6.0 * (x - _EULER) / variance)
    else:
        z, w = torch.zeros(1, dtype=x.dtype), torch.ones(1, dtype=x.dtype)
        if shared:
            z = torch.linspace(-7.0, 7.0, 2 * math.ceil(30.0 * max(1.0, shared)) + 1, dtype=x.dtype)
            w = torch.exp(-0.5 * z.square())
            w /= w.sum()
        G, g, v = (torch.empty_like(x) for _ in range(3))
        for part in torch.arange(len(x)).split(max(1, _BLOCK_NUMBERS // len(z))):
            value = x[part, None] - shared * z
            t = torch.exp(-value).clamp_max_(1e300)
            cdf = torch.exp(-t)
            G[part], g[part], v[part] = cdf @ w, (t * cdf) @ w, (value * t * cdf) @ w
    i, k = torch.arange(n)[:, None], torch.arange(n_points)
    index = k - i + n_before + n
    return G[index], g[index], v[index]
