r"""Gumbel noise on a lattice, for the softmax of Gaussian latents (eq. 6.21).

Softmax is what an argmax becomes under independent Gumbel noise, so that its
expectations are integrals over one number, the largest of the latents plus
their noise. On a lattice a Gaussian is a row of weights, and the distribution
function of a latent plus noise a product of that row with a matrix which is
the same for all classes and rows: ``noise`` makes it.

Latents may be narrower than a step. The noise therefore is not quite Gumbel's:
on the finest lattice it has a variance taken away, which all latents have
more; on the others it has the part of their variance that the lattice cannot show.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Deviations of a latent that count, and how far noise reaches below and above it.
TAIL, BELOW, ABOVE = 5.0, 3.0, 8.0
# The finest step, and what of the variance is noise, in steps: on the finest lattice, and on others.
STEP, TAKEN, SHARED = 0.35, 0.9, 0.7
# Steps that the least deviation has on a coarser lattice, and the least that is left of it.
FEWEST_STEPS, LEAST = 1.2, 0.5
# The number of points is a multiple of this, and has a limit.
POINTS, MOST_POINTS = 48, 768
# Weights begin this far below the first point; of latents three deviations below FAR exponentials are left.
BEFORE, FAR = 12.0, 6.0
# All deviations of a row whose largest exceeds this are made smaller: beside them noise is nothing.
WIDEST = 1e5
# The largest deviation of a difference of two latents that the nodes of a line are dense enough for, and
# the variance of the logistic distribution.
WIDEST_LINE, LOGISTIC = 16.0, math.pi**2 / 3.0
# Distribution functions below this play no part.
NEGLIGIBLE = 1e-30
EULER = 0.5772156649015329

# Below this Gumbel's distribution function is zero: measured best for entropies between -3.6 and -2.3.
_NOTHING = -3.0
_BROAD, _VARIANCE = 30.0, math.pi**2 / 6.0


def step_of(level: int) -> float:
    """Each level has twice the step of the one before."""
    return STEP * 2.0**level


def points_before(level: int) -> int:
    """Points of the weights below the first point of the integral."""
    return math.ceil(BEFORE / step_of(level))


def noise_variance(level: int) -> float:
    """Variance that the noise carries for every latent; negative on the finest lattice."""
    return (SHARED * step_of(level)) ** 2 if level else -((TAKEN * STEP) ** 2)


@lru_cache(maxsize=64)
def noise(level: int, n_points: int, dtype: str) -> Array:
    r"""Survival function, density and density times noise between points, shape (I, 3 n_points).

    With G Gumbel's distribution function the first is one less
    :math:`E\, G(u - \tau z)`, z standard normal and :math:`\tau^2` what
    ``noise_variance`` says. Where that is negative tau is imaginary: G is
    analytic, and its mean along the imaginary axis is what a Gaussian
    makes G of.
    """
    n_before, variance = points_before(level), noise_variance(level)
    u = step_of(level) * np.arange(1 - n_points, n_points + n_before)
    if variance < 0.0:  # up to half pi, where cos(tau z) > 0
        z = np.linspace(-0.5 * math.pi, 0.5 * math.pi, 201) / math.sqrt(-variance)
        tau: complex = 1j * math.sqrt(-variance)
    else:
        tau = min(math.sqrt(variance), _BROAD)
        z = np.linspace(-8.0, 8.0, 2 * math.ceil(20.0 * max(2.0, tau)) + 1)
    # Beside a broad Gaussian the variance of the noise is all that matters of it.
    rate = math.sqrt((max(tau.real, _BROAD) ** 2 + _VARIANCE) / (max(variance, _BROAD**2) + _VARIANCE))
    u = EULER + rate * (u - EULER)
    w = np.exp(-0.5 * z * z)
    w /= w.sum()
    curves = np.zeros((3, len(u)))
    curves[0] = 1.0
    for i in np.flatnonzero(u > _NOTHING) if variance < 0.0 else range(len(u)):
        v = u[i] - tau * z
        t = np.exp(-np.maximum(v.real, -6.0) - 1j * v.imag)
        survival = -np.expm1(-t)
        density = t * (1.0 - survival)
        curves[:, i] = [(f @ w).real for f in (survival, rate * density, rate * v * density)]
    index = np.arange(n_points) - np.arange(-n_before, n_points)[:, None] + n_points - 1
    return np.concatenate(list(curves[:, index]), 1).astype(dtype)


@lru_cache(maxsize=64)
def points(level: int, n_points: int, dtype: str) -> tuple[Array, Array]:
    """Points of the weights, from the first of the integral, and the integral's weights.

    Beyond the last point densities fall like exp(-x).
    """
    step = step_of(level)
    weight = np.full(n_points, step, dtype)
    weight[-1] = step / -math.expm1(-step)
    return (step * np.arange(-points_before(level), n_points)).astype(dtype), weight


# Numbers of classes × rows × weights treated at once: they stay in the cache.
_CHUNK_NUMBERS = 80_000
_LEAST_STEPS = 1e-9  # positive, so that it has a logarithm
# A key is level * LEVEL + number of blocks of points.
LEVEL = 1024


def expected_softmax(F: Array, s: Array, dtype: str) -> Array:
    """E softmax(f), shape (n, C), of latents with means F and deviations s, shape (n, C) or (n, 1).

    What ``_core.gumbel.largest`` says, for few rows and without torch.
    """
    widest = float(s.max())
    if widest > WIDEST:
        shrink = np.minimum(WIDEST / s.max(1, keepdims=True), 1.0)
        F, s = F * shrink, s * shrink
    tail = TAIL * s
    low = (F - tail).max(1, keepdims=True) - BELOW
    high = (F + np.maximum(np.minimum(0.5 * s * s, tail) + ABOVE, tail + 2.0)).max(1)
    F = F - low
    floor = -FAR - 3.0 * s
    narrowest = np.where(floor < F, s, np.inf).min(1)
    keys = _keys(high - low[:, 0], narrowest)
    lift = np.maximum(floor - F, 0.0)
    F += lift
    scale = np.exp(-lift)
    if len(keys) == 1:
        return _on_lattice(F, s, scale, int(keys[0]), dtype)
    proba = np.empty(F.shape)
    for key in np.unique(keys).tolist():
        rows = np.flatnonzero(keys == key)
        size = max(1, _CHUNK_NUMBERS // (F.shape[1] * len(points(*_shape(key), dtype)[0])))
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            proba[part] = _on_lattice(F[part], s[part], scale[part], key, dtype)
    return proba


def _keys(reach: Array, narrowest: Array) -> Array:
    """The level of each row's lattice and its number of blocks of points, as one number."""
    doublings = np.log2(reach)
    wanted = np.ceil(doublings - math.log2(POINTS * STEP))
    needed = np.ceil(doublings - math.log2(MOST_POINTS * STEP))
    allowed = np.floor(np.log2(np.maximum(narrowest / (FEWEST_STEPS * STEP), _LEAST_STEPS)))
    level = np.maximum(np.maximum(np.minimum(wanted, allowed), needed), 0.0)
    return (level * LEVEL + np.ceil(reach / (POINTS * STEP) * np.exp2(-level))).astype(np.int64)


def _shape(key: int) -> tuple[int, int]:
    return key // LEVEL, key % LEVEL * POINTS


def _on_lattice(F: Array, s: Array, scale: Array, key: int, dtype: str) -> Array:
    level, K = _shape(key)
    step = step_of(level)
    y, weight = points(level, K, dtype)
    rate = np.maximum(s * s - noise_variance(level), (LEAST * step) ** 2) ** -0.5
    scale = scale * (rate * (step / math.sqrt(2.0 * math.pi)))
    rate *= math.sqrt(0.5)
    F, rate, scale = ((t if t.dtype == dtype else t.astype(dtype))[:, :, None] for t in (F, rate, scale))
    w = y - F
    w *= rate
    w *= w
    np.negative(w, out=w)
    np.exp(w, out=w)
    w *= scale
    n, C, _ = w.shape
    w, matrix = w.reshape(n * C, -1), noise(level, K, dtype)
    H = np.subtract(1.0, w @ matrix[:, :K]).reshape(n, C, K)
    np.maximum(H, NEGLIGIBLE, out=H)
    mass = np.multiply.reduce(H, 1)
    mass *= weight
    h = (w @ matrix[:, K : 2 * K]).reshape(n, C, K)
    h /= H
    result = (h @ mass[:, :, None])[:, :, 0].astype(np.float64, copy=False)
    result /= np.add.reduce(result, 1, keepdims=True)
    return result
