"""Class probabilities of a few classes, with a bound on all the others together (eqs. 6.10 to 6.12).

Latent means of all classes are one product; their variances cost a solve
each. A class far below the favourite needs none: a bound on the variances of
all classes says how much it can have at most.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm._core import gumbel, linalg
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


# Powers of the exponentials that bound what classes left out can have, each twice the next.
_POWERS = (1.0, 0.5, 0.25, 0.125)
N_BOUNDS = len(_POWERS)


def largest_growth(factor: Tensor, deviation: float) -> Tensor:
    r"""By what factor E exp(lambda f_j) can exceed exp(lambda mean), shape (C, N_BOUNDS) (eq. 6.11).

    Parameters
    ----------
    factor : Tensor of shape (C,)
        Of the classes' variances, in the envelope.
    deviation : float
        Standard deviation of a latent, in units of the softmax, of a class
        whose factor is one.
    """
    powers = torch.tensor(_POWERS, dtype=factor.dtype, device=factor.device)
    return torch.exp(0.5 * (powers * deviation).square() * factor[:, None])


class Candidates(NamedTuple):
    """The classes of largest mean, and bounds on all others.

    Attributes
    ----------
    classes : Tensor of shape (n, K)
        By falling mean.
    mean : Tensor of shape (n, K)
        Their means less that of the first.
    rest : Tensor of shape (n, N_BOUNDS)
        Upper bounds on the sum of E exp(lambda f_j) of all others, f_j less
        the mean of the first.
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
    growth : Tensor of shape (C, N_BOUNDS)
        The result of ``largest_growth``.
    """
    top, classes = mean.topk(n_candidates, dim=1)
    first = top[:, :1].clone()
    others = exp_(mean.sub_(first).scatter_(1, classes, -torch.inf), _POWERS[-1])
    rest = mean.new_empty(mean.shape[0], len(_POWERS))
    for i in reversed(range(len(_POWERS))):
        torch.mv(others, growth[:, i], out=rest[:, i])
        others.square_()
    # 0 times infinity is NaN: no bound is known.
    return Candidates(classes, top - first, rest.nan_to_num_(nan=torch.inf, posinf=torch.inf))


def pair_variances(q: Gaussian, A: Tensor, classes: Tensor) -> Tensor:
    """Explained variances a_n^T S_j a_n of K classes j per row, shape (n, K).

    Only classes that some row needs are computed, once for all its rows.
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


def candidate_probabilities(chosen: Candidates, deviation: Tensor) -> tuple[Tensor, Tensor]:
    r"""Expected softmax among the candidates, (n, K), and what all others have at most, (n,) (eq. 6.12).

    One of the others can be the largest, latent plus noise, only where it exceeds
    that of the candidates.

    Parameters
    ----------
    chosen : Candidates
    deviation : Tensor of shape (n, K)
        Standard deviations of their latents, in units of the softmax.
    """
    proba, left_out = torch.empty_like(chosen.mean), chosen.mean.new_empty(len(chosen.mean))
    log_rest = chosen.rest.log()
    for part in gumbel.largest(chosen.mean, deviation):
        # Bounds fall with x: take them at the lower ends of the cells of the quadrature.
        x = part.x - 0.5 * (part.x[:, 1:2] - part.x[:, :1])
        others = log_rest.new_zeros(())
        for power, log_sum in zip(_POWERS, log_rest[part.rows].mT, strict=True):
            others = torch.minimum(others, log_sum[:, None] - power * x)
        won = part.proba
        total = won.sum(1, keepdim=True)
        proba[part.rows] = won / total
        density = part.hazard.sum(0).mul_(part.mass)
        left_out[part.rows] = torch.linalg.vecdot(density, others.exp()) / total[:, 0]
    return proba, left_out.clamp_max_(1.0)
