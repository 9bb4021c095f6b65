r"""The largest of Gaussian latents plus Gumbel noise, on a lattice (eqs. 6.21, 6.22).

``_compiled.gumbel`` says what the lattices are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._compiled import gumbel as lattice
from bayesvm._core.linalg import exp_

# Numbers in memory at once: on a processor, what a cache holds.
_BLOCK_NUMBERS = {"cpu": 200_000}
_BLOCK_NUMBERS_ACCELERATOR = 2**25


class Part(NamedTuple):
    """Integrands for some rows, on the points of their lattice.

    Attributes
    ----------
    rows : Tensor of shape (n,)
    x : Tensor of shape (n, K)
        Values of the largest latent plus noise.
    mass : Tensor of shape (n, K)
        Probability that it is below, times the weight of the point.
    hazard : Tensor of shape (C, n, K)
        Density over distribution function of each class.
    surprise : Tensor of shape (n,) or None
        Mean noise of the largest, times the sum of the integrals.
    """

    rows: Tensor
    x: Tensor
    mass: Tensor
    hazard: Tensor
    surprise: Tensor | None

    @property
    def proba(self) -> Tensor:
        """Probabilities of the classes to be the largest, not normalised, shape (n, C)."""
        return torch.linalg.vecdot(self.hazard, self.mass).mT


def largest(F: Tensor, s: Tensor, surprise: bool = False) -> Iterator[Part]:
    """The largest of latents N(F, s^2) plus Gumbel noise, for blocks of rows with like lattices (eq. 6.21).

    The lattice of a row depends on that row alone.
    """
    shrink = (lattice.WIDEST / s.amax(1, keepdim=True)).clamp_max_(1.0)
    F, s = F * shrink, s * shrink
    tail = lattice.TAIL * s
    low = (F - tail).amax(1).sub_(lattice.BELOW)
    high = (F + torch.maximum(torch.minimum(0.5 * s.square(), tail) + lattice.ABOVE, tail + 2.0)).amax(1)
    floor = (low - lattice.FAR)[:, None] - 3.0 * s
    narrowest = torch.where(floor < F, s, torch.inf).amin(1)
    # Doublings of the finest step: wanted for the range, needed for it, and allowed by the latents.
    reach, finest = high - low, lattice.FEWEST_STEPS * lattice.STEP
    wanted, needed = (torch.ceil(torch.log2(reach / (n * lattice.STEP))) for n in _LENGTHS)
    allowed = torch.floor(torch.log2(narrowest / finest))
    level = torch.maximum(torch.minimum(wanted, allowed), needed).clamp_min_(0.0)
    blocks = torch.ceil(reach / (lattice.POINTS * lattice.STEP * torch.exp2(level)))
    keys = (level * lattice.LEVEL + blocks).long()
    distinct = keys.tolist() if len(keys) == 1 else torch.unique(keys).tolist()
    every = torch.arange(len(keys), device=F.device)
    numbers = _BLOCK_NUMBERS.get(F.device.type, _BLOCK_NUMBERS_ACCELERATOR)
    for key in distinct:
        rows = every if len(distinct) == 1 else every[keys == key]
        exponent, n_points = key // lattice.LEVEL, key % lattice.LEVEL * lattice.POINTS
        n_weights = lattice.points_before(exponent) + n_points
        for block in rows.split(max(1, numbers // (F.shape[1] * n_weights))):
            whole = len(block) == len(every)
            F_b, s_b, low_b, floor_b = (t if whole else t[block] for t in (F, s, low, floor))
            yield _part(block, F_b, s_b, low_b, floor_b, exponent, n_points, surprise)


# Numbers of points at best and at most.
_LENGTHS = lattice.POINTS, lattice.MOST_POINTS


def _part(
    rows: Tensor,
    F: Tensor,
    s: Tensor,
    low: Tensor,
    floor: Tensor,
    level: int,
    n_points: int,
    surprise: bool,
) -> Part:
    step = lattice.step_of(level)
    matrix, points, weight = _lattice(level, n_points, F.dtype, F.device)
    least = (lattice.LEAST * step) ** 2
    sigma = (s.square() - lattice.noise_variance(level)).clamp_min_(least).sqrt_()
    # Far below all points only exp(F) matters: such latents are lifted, and weigh less.
    lift = (floor - F).clamp_min_(0.0)
    factor = torch.exp(-lift).mul_(step / math.sqrt(2.0 * math.pi)) / sigma
    f, sigma, factor, lift = (t.mT[:, :, None] for t in (F + lift - low[:, None], sigma, factor, lift))
    w = exp_(((points - f) / sigma).square_(), -0.5).mul_(factor)
    H, h, *e = (w @ (matrix if surprise else matrix[:, : 2 * n_points])).split(n_points, 2)
    H = H.neg_().add_(1.0).clamp_min_(lattice.NEGLIGIBLE)
    mass = H.prod(0).mul_(weight)
    noise = None
    if surprise:
        own = e[0].add_(lift * h).div_(H).sum(0)
        # The tail beyond the last point has more noise, increasingly so with distance.
        q = math.exp(-step)
        beyond = h[:, :, -1].sum(0) * (step**2 * q / (1.0 - q) ** 2)
        noise = torch.linalg.vecdot(own, mass) + beyond
    return Part(rows, low[:, None] + points[-n_points:], mass, h.div_(H), noise)


@lru_cache(maxsize=64)
def _lattice(level: int, n_points: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    """The matrix, points of the weights from the first of the integral, and weights of the integral."""
    name = str(dtype).removeprefix("torch.")
    arrays = (lattice.noise(level, n_points, name), *lattice.points(level, n_points, name))
    return tuple(torch.from_numpy(a).to(device) for a in arrays)
