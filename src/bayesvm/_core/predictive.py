"""Class probabilities: the expected softmax of the latents and its entropies (section 6)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._compiled import gumbel as lattice
from bayesvm._core import gumbel

_MAX_SOBOL_DIMENSION = 512
LINE_NODES = 128
# Calls are most of what so few rows cost, and those of numpy are shorter.
_FEW_ROWS = 8


def log_softmax_pairwise(F: Tensor, s2: Tensor, T: Tensor | float) -> Tensor:
    r"""Closed form approximation of log E softmax(T f), shape (N, C) (eq. 6.5).

    .. math:: \log p_j \propto -\log \sum_k \exp(-T (F_j - F_k) /
              \sqrt{1 + \pi T^2 (s_j^2 + s_k^2) / 8})

    Invariant to shifts of F; used in training, where gradients are needed.
    """
    T = torch.as_tensor(T, dtype=F.dtype, device=F.device)
    difference = F[:, :, None] - F[:, None, :]
    spread = s2[:, :, None] + s2[:, None, :]
    z = T * difference * torch.rsqrt(1.0 + (math.pi / 8.0) * T * T * spread)
    return torch.log_softmax(-torch.logsumexp(-z, 2), 1)


@lru_cache(maxsize=64)
def _sobol_normal(n_nodes: int, n_classes: int) -> Tensor:
    """Fixed standard normal nodes (S, C), antithetic so that odd moments vanish."""
    if n_classes <= _MAX_SOBOL_DIMENSION:
        engine = torch.quasirandom.SobolEngine(n_classes, scramble=True, seed=0)
        u = engine.draw(n_nodes // 2, dtype=torch.float64)
        z = torch.special.ndtri(u.clamp(1e-10, 1.0 - 1e-10))
    else:  # beyond Sobol's useful dimension plain draws are as good
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(n_nodes // 2, n_classes, generator=generator, dtype=torch.float64)
    return torch.cat([z, -z])


def normal_nodes(n_nodes: int, n_latents: int) -> Tensor:
    """Fixed standard normal nodes, one for each of as many draws, shape (S, J)."""
    return _sobol_normal(n_nodes + n_nodes % 2, n_latents)[:n_nodes]


@lru_cache(maxsize=4)
def line_nodes(n_nodes: int) -> tuple[Tensor, Tensor]:
    """Trapezoid nodes and normalised weights for a standard normal."""
    z = torch.linspace(-8.0, 8.0, n_nodes, dtype=torch.float64)
    w = torch.exp(-0.5 * z * z)
    return z, w / w.sum()


def _latents_at_nodes(F: Tensor, s2: Tensor, n_nodes: int) -> tuple[Tensor, Tensor]:
    """Latents at fixed nodes, (C, N, S), up to a common shift, and the nodes' weights, (S,).

    The nodes are the same for every row, so predictions do not depend on
    batches. With two classes only the difference matters and one dimension
    suffices. Classes come first: sums over them are then sums of whole
    matrices, three times as fast as sums over the last few numbers.
    """
    if F.shape[1] == 2:
        z, w = line_nodes(n_nodes)
        half = 0.5 * ((F[:, 1] - F[:, 0])[:, None] + s2.sum(1).sqrt()[:, None] * z.to(F))
        return torch.stack([-half, half]), w.to(F)
    z = _sobol_normal(n_nodes, F.shape[1])
    w = torch.full((z.shape[0],), 1.0 / z.shape[0], dtype=F.dtype, device=F.device)
    return torch.addcmul(F.mT[:, :, None], s2.sqrt().mT[:, :, None], z.to(F).mT[:, None, :]), w


def margins_at_nodes(F: Tensor, s2: Tensor, y: Tensor, n_nodes: int) -> tuple[Tensor, Tensor]:
    """Latents minus that of class y at fixed nodes, (C, N, S), and the nodes' weights, (S,)."""
    f, w = _latents_at_nodes(F, s2, n_nodes)
    return f.sub_(f.gather(0, y[None, :, None].expand(1, -1, f.shape[2]))), w


class PredictiveMoments(NamedTuple):
    """Expected class probabilities and entropies in nats (eqs. 6.4, 6.6)."""

    proba: Tensor
    total: Tensor
    aleatoric: Tensor


def predictive_moments(F: Tensor, s2: Tensor, T: float) -> PredictiveMoments:
    r"""E softmax(T f), its entropy, and the expected entropy of softmax(T f) (eqs. 6.4, 6.6, 6.22).

    Given the latents, the noise of the largest is in the mean Euler's constant
    larger than their entropy.
    """
    if F.shape[1] == 2:
        f, w, shrink = _on_a_line(F, s2, T)
        p = torch.sigmoid(torch.stack([-f, f]))
        # A wide Gaussian of the difference is wider still than the shrunk one, and less is undecided.
        return entropies(_normalised((p @ w).mT), (torch.special.entr(p).sum(0) @ w).mul_(shrink))
    proba, noise = torch.empty_like(F), F.new_empty(F.shape[0])
    for part in gumbel.largest(T * F, T * s2.sqrt(), surprise=True):
        proba[part.rows] = won = part.proba
        assert part.surprise is not None
        noise[part.rows] = part.surprise / won.sum(1)
    return entropies(_normalised(proba), (noise - lattice.EULER).clamp_min_(0.0))


def entropies(proba: Tensor, expected: Tensor) -> PredictiveMoments:
    """Probabilities (N, C), their entropy, and the expected one (N,), which cannot exceed it (eq. 6.6)."""
    total = torch.special.entr(proba).sum(1)
    return PredictiveMoments(proba, total, torch.minimum(expected, total))


def expected_softmax(F: Tensor, s2: Tensor, T: float) -> Tensor:
    r"""Class probabilities E_q[softmax(T f)], shape (N, C) (eqs. 6.4, 6.21)."""
    if F.shape[1] == 2:
        f, w, _ = _on_a_line(F, s2, T)
        return _normalised((torch.sigmoid(torch.stack([-f, f])) @ w).mT)
    if F.device.type == "cpu" and F.shape[0] <= _FEW_ROWS:
        m, s = (T * F).double().numpy(), (T * s2.sqrt()).double().numpy()
        return torch.from_numpy(lattice.expected_softmax(m, s, "float64")).to(F)
    proba = torch.empty_like(F)
    for part in gumbel.largest(T * F, T * s2.sqrt()):
        proba[part.rows] = part.proba
    return _normalised(proba)


def _on_a_line(F: Tensor, s2: Tensor, T: float) -> tuple[Tensor, Tensor, Tensor]:
    """The difference of two latents at the nodes (N, S), their weights (S,), and a shrinkage (N,).

    Where the nodes were too far apart for a sigmoid, its slope plays no part
    but through its variance: mean and deviation shrink together.
    """
    z, w = line_nodes(LINE_NODES)
    variance, widest = T**2 * s2.sum(1), lattice.WIDEST_LINE**2
    shrink = ((widest + lattice.LOGISTIC) / (variance + lattice.LOGISTIC)).clamp_max_(1.0).sqrt_()
    deviation = variance.clamp_max(widest).sqrt_()
    mean = T * shrink * (F[:, 1] - F[:, 0])
    return mean[:, None] + deviation[:, None] * z.to(F), w.to(F), shrink


def _normalised(proba: Tensor) -> Tensor:
    return proba / proba.sum(1, keepdim=True)
