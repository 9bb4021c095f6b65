"""Class probabilities of a few classes, with a bound on all the others together (eqs. 6.10 to 6.12).

Latent means of all classes are one product; their variances cost a solve
each. A class far below the favourite needs none: a bound on the variances of
all classes says how much it can have at most.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._core import linalg
from bayesvm._core.gaussian import Gaussian
from bayesvm._core.grouping import stable_order
from bayesvm._core.linalg import exp_

# Squarings after which a norm is as good as the largest eigenvalue.
_SQUARINGS = 4
_FACTOR_NUMBERS = 2_000_000


class Envelope(NamedTuple):
    r"""A bound on the variances of all classes: a^T S_j a <= factor_j |root^T a|^2 (eq. 6.10).

    Attributes
    ----------
    root : Tensor of shape (P, P)
        Cholesky factor of the mean covariance of the classes.
    factor : Tensor of shape (C,)
        At least one.
    """

    root: Tensor
    factor: Tensor


def envelope(q: Gaussian) -> Envelope:
    r"""The mean covariance, and by how much each class can exceed it (eq. 6.10).

    The factor is the largest eigenvalue of :math:`M_j = L^{-1} S_j L^{-\top}`,
    bounded by :math:`(\mathrm{tr} M_j^{32})^{1/32}`, which is at most
    :math:`P^{1/32}` times as large.
    """
    C, P = q.m.shape
    R = q.R.double().split(max(1, _FACTOR_NUMBERS // P**2))
    eye = torch.eye(P, dtype=torch.float64, device=q.R.device)
    mean = torch.zeros_like(eye)
    for part in R:
        inverse = linalg.solve_lower(part, eye.expand_as(part)).flatten(0, 1)
        mean += inverse.mT @ inverse
    root = linalg.cholesky(mean / C)
    back = linalg.solve_lower(root, eye).mT
    factor = []
    for part in R:
        Y = linalg.solve_lower(part, back.expand_as(part))
        M = Y.mT @ Y
        scale = M.diagonal(dim1=-2, dim2=-1).sum(-1)
        M = M / scale[:, None, None]
        for _ in range(_SQUARINGS):
            M = M @ M
        power = torch.linalg.vector_norm(M, dim=(-2, -1)) ** 0.5**_SQUARINGS
        factor.append((scale * power).clamp_min(1.0))
    return Envelope(root, torch.cat(factor))


def largest_growth(reach: Tensor, deviation: float) -> Tensor:
    r"""By what factor exp(f_j) can exceed exp(mean) at the nodes: exp(deviation reach) (eq. 6.11).

    An exponential is convex, so between no deviation and the largest one it
    is below the larger of its two ends: upwards that of the largest
    deviation, downwards one.

    Parameters
    ----------
    reach : Tensor of shape (C, S)
        max(0, z) times the root of the class's factor.
    deviation : float
        Standard deviation of a latent, in units of the softmax, of a class
        whose factor is one.
    """
    return exp_(reach.clone(), deviation)


class Candidates(NamedTuple):
    """The classes of largest mean, and what all others may have.

    Attributes
    ----------
    classes : Tensor of shape (n, K)
        By falling mean.
    mean : Tensor of shape (n, K)
        Their means less that of the first.
    rest : Tensor of shape (n, S)
        Upper bound on the sum of exp(f_j) of all others at every node, in
        units of exp(mean of the first).
    """

    classes: Tensor
    mean: Tensor
    rest: Tensor


def candidates(mean: Tensor, growth: Tensor, n_candidates: int) -> Candidates:
    """The K classes of largest mean of each row, and a bound on the rest (eq. 6.11).

    Parameters
    ----------
    mean : Tensor of shape (n, C)
        Overwritten.
    growth : Tensor of shape (C, S)
        What ``largest_growth`` says.
    """
    top, classes = mean.topk(n_candidates, dim=1)
    first = top[:, :1].clone()
    others = exp_(mean.sub_(first).scatter_(1, classes, -torch.inf))
    return Candidates(classes, top - first, others @ growth)


def pair_variances(q: Gaussian, A: Tensor, classes: Tensor) -> Tensor:
    """Explained variances a_n^T S_j a_n of K classes j per row, shape (n, K).

    Only classes that some row asks for cost anything, once for all its rows.
    """
    n, K = classes.shape
    label = classes.reshape(-1)
    order = stable_order(label, q.m.shape[0])
    touched, counts = torch.unique_consecutive(label.index_select(0, order), return_counts=True)
    rows = order.div(K, rounding_mode="floor").split(counts.tolist())
    sorted_variances = A.new_empty(n * K)
    for j, rows_j, V_j in zip(touched.tolist(), rows, sorted_variances.split(counts.tolist()), strict=True):
        V_j.copy_(linalg.inverse_quadratic(q.R[j], A.index_select(0, rows_j).mT))
    return torch.empty_like(sorted_variances).scatter_(0, order, sorted_variances).view(n, K)


def candidate_probabilities(chosen: Candidates, deviation: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    r"""Expected softmax among the candidates, (n, K), and what all others have at most, (n,) (eq. 6.12).

    With :math:`e^{L}` the sum of the candidates' exponentials at a node and
    R that of the others, the probability of a candidate at that node is
    smaller by the factor :math:`e^L / (e^L + R)` than it is among the
    candidates; the others have :math:`R / (e^L + R)`.

    Parameters
    ----------
    chosen : Candidates
    deviation : Tensor of shape (n, K)
        Standard deviations of their latents, in units of the softmax.
    nodes : Tensor of shape (C, S)
    """
    z = nodes[chosen.classes]  # [n, K, S]
    f = z.mul_(deviation[:, :, None]).add_(chosen.mean[:, :, None])
    top = f.amax(1)
    p = exp_(f.sub_(top[:, None, :]))
    total = p.sum(1)
    p /= total[:, None, :]
    inside = total.mul_(exp_(top))
    # No others: 0. What overflows may be everything: 1.
    outside = torch.where(chosen.rest == 0, 0.0, 1.0 / (1.0 + inside / chosen.rest))
    return p.mean(2), torch.nan_to_num(outside, nan=1.0).mean(1)
