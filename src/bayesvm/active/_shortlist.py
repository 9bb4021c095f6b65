r"""The rows with the largest variation ratio, without integrating all of them.

With c the class of the largest mean and :math:`z_j \ge 0` its lead over class j
in standard deviations of the difference,

.. math:: \max_{j \ne c} \Phi(-z_j) \;\le\; VR \;\le\; 1 - P(\arg\max f = c)
          \;\le\; 1 - \prod_{j \ne c} \Phi(z_j) \;\le\; \sum_{j \ne c} \Phi(-z_j).

Below: whoever wins instead of c must beat c, and a class other than c loses to c
with probability 1/2 or more. Above: all leads share :math:`f_c`, so that they are
positively correlated and c wins more often than if they were independent
(Slepian). A row whose upper bound misses the k-th best ratio is not among the
best k. The bound by the product grows with the variances, so that those of the prior will
do for a first look; the probability that c loses need not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core.likelihoods.base import per_class_moments
from bayesvm._model import LoadedModel
from bayesvm._threads import thread_workers

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]
_BLOCK_ROWS = 16384
# 28 nodes integrate over one function to 1e-5 where the deviations of a row's
# classes differ by no more than this factor, single precision to about as much.
_NODES = 28
_ALIKE = 2.0
TOLERANCE = 1e-4
# A first look with fewer nodes, and how far off it may be.
_ROUGH_NODES = 12
ROUGHNESS = 2e-2
# The first look of the search for the best, and the last.
_FIRST_LOOK, _MOST_ROWS = 256, 32768


def top(scores: FloatArray, n: int, rng: np.random.Generator | None = None) -> IntArray:
    """Positions of the n largest scores, best first; ties at random, or in order without a generator.

    Scores that are NaN or minus infinity are not eligible, so that fewer may come back.
    """
    scores = np.asarray(scores, dtype=np.float64)
    eligible = np.flatnonzero(scores > -np.inf)
    n = min(n, eligible.size)
    if n <= 0:
        return np.empty(0, dtype=np.int64)
    values = scores[eligible]
    threshold = np.partition(values, values.size - n)[values.size - n]
    better = eligible[values > threshold]
    tied = eligible[values == threshold]
    tied = tied if rng is None else rng.permutation(tied)
    better = better if rng is None else rng.permutation(better)
    better = better[np.argsort(-scores[better], kind="stable")]
    return np.concatenate([better, tied[: n - better.size]])


def independent_bound(F: Tensor, s2: Tensor) -> tuple[Tensor, Tensor]:
    """Lower and upper bounds of the variation ratio from one normal probability per class."""
    best, c = F.max(1, keepdim=True)
    z = (F - best) * torch.rsqrt(s2.gather(1, c) + s2)
    loses = torch.special.ndtr(z).scatter_(1, c, 0.0)
    # 1 - prod Phi(z), without cancellation where all leads are large
    return loses.amax(1), -torch.expm1(torch.log1p(-loses).sum(1))


@lru_cache(maxsize=8)
def _nodes(n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    t = torch.linspace(-5.0, 5.0, n, dtype=torch.float64)
    w = torch.exp(-0.5 * t * t)
    return t.to(device, dtype), (w / w.sum()).to(device, dtype)


def integrated_bound(F: Tensor, s2: Tensor, rough: bool = False) -> Tensor:
    r"""1 - P(argmax f = c) up to ``TOLERANCE``, or roughly; where deviations differ much, the bound above.

    .. math:: P(\arg\max f = c) = \int N(t; 0, 1) \prod_{j \ne c} \Phi((F_c - F_j + s_c t) / s_j) \, dt
    """
    t, w = _nodes(_ROUGH_NODES if rough else _NODES, F.dtype, F.device)
    best, c = F.max(1, keepdim=True)
    s = s2.sqrt()
    x = best + s.gather(1, c) * t
    # Classes one by one: matrices of rows and nodes stay in cache. Phi(z) = erfc(-z / sqrt 2) / 2.
    rate = (math.sqrt(0.5) / s).scatter_(1, c, 0.0)
    wins = torch.ones_like(x)
    for j in range(F.shape[1]):
        Phi = torch.special.erf((x - F[:, j, None]).mul_(rate[:, j, None])).add_(1.0).mul_(0.5)
        # Of the class itself nothing is asked: its rate is zero, which gives 1/2.
        wins.mul_(Phi)
    loses = 1.0 - 2.0 * (wins @ w)
    loses.clamp_(0.0, 1.0)
    unlike = s.amax(1) > _ALIKE * s.amin(1)
    if bool(unlike.any()):
        loses[unlike] = independent_bound(F[unlike], s2[unlike])[1]
    return loses


def best_first(
    rows: IntArray,
    upper: FloatArray,
    score: Callable[[IntArray], FloatArray],
    k: int,
    rng: np.random.Generator | None = None,
) -> tuple[IntArray, FloatArray]:
    """The k rows of largest score, computing as few scores as their upper bounds allow.

    Where tens of thousands of rows cannot be told from the best by their
    bounds, the search ends: those left out are better by the looseness of the
    bounds at most.

    Parameters
    ----------
    rows : ndarray of int
    upper : ndarray of the same length
        No score is larger.
    score : callable
        Scores of some rows.
    k : int
    rng : Generator or None
        Decides between equal rows; None: those with the larger bounds, then the first.
    """
    order = np.argsort(-upper, kind="stable")
    rows, upper = rows[order], upper[order]
    scores = np.empty(0)
    size = max(_FIRST_LOOK, 2 * k)
    while scores.size < rows.size:
        done = scores.size
        scores = np.concatenate([scores, score(rows[done : done + size])])
        if scores.size >= max(_MOST_ROWS, 2 * k) or scores.size >= rows.size:
            break
        if scores.size >= k and np.partition(scores, scores.size - k)[scores.size - k] > upper[scores.size]:
            break
        size = 2 * size
    chosen = top(scores, k, rng)
    return rows[chosen], scores[chosen]


# --- Large pools: the best rows under a fitted model, most rows seen only from afar.

# Rows that a thread treats at once, and blocks after which all know what they must beat.
_SCREENED_ROWS = 8192
_WAVE = 8
# Inducing points as close to each other as this leave no digits to single precision.
_CONDITION = 1e3
# Rows of each block whose ratio is computed.
_PROBES = 4


def can_screen(estimator: Any) -> bool:
    """Whether an estimator's latents are one Gaussian q without a local part, whose cost is another."""
    model = getattr(estimator, "model_", None)
    if model is None or model.draws is not None or model.local is not None:
        return False
    return len(model.calibration) == 1


def screened(
    estimator: Any,
    X: Any,
    k: int,
    eligible: npt.NDArray[np.bool_] | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[IntArray, FloatArray]:
    """The k rows with the largest variation ratio, and these ratios.

    Bounds in single precision, block by block, each stage for the rows that
    the one before could not rule out: variances of the prior, variances of
    the posterior, an integral over one function, roughly and again. What is left is computed as
    ``variation_ratio`` computes it.
    """
    quick, X = _quick(estimator, X)
    blocks = _blocks(len(X), eligible)
    best = np.full(k, -np.inf)
    rows, upper = [], []
    with thread_workers(len(blocks)) as workers:
        for first in range(0, len(blocks), _WAVE):
            floor = float(best[0])
            wave = blocks[first : first + _WAVE]
            found = workers.map(partial(quick.survivors, X, floor), wave)
            rows += [index for index, _ in found]
            upper += [bound for _, bound in found]
            probes = np.concatenate([i[np.argsort(-b, kind="stable")[: max(_PROBES, k)]] for i, b in found])
            if probes.size:
                ratios = estimator.variation_ratio(X[probes])
                best = np.sort(np.concatenate([best, ratios]))[-k:]
    if not rows:
        return np.empty(0, dtype=np.int64), np.empty(0)
    together, bounds = np.concatenate(rows), np.concatenate(upper)
    left = bounds >= best[0]
    return best_first(together[left], bounds[left], lambda i: estimator.variation_ratio(X[i]), k, rng)


def shortlisted(
    estimator: Any,
    X: Any,
    rough: Callable[[Tensor, Tensor, float], Tensor],
    n: int,
    eligible: npt.NDArray[np.bool_] | None = None,
) -> IntArray:
    """The n rows with the largest rough scores, which are computed in single precision.

    Parameters
    ----------
    estimator : LatentClassifier
        That ``can_screen``.
    X : array-like of shape (n_rows, n_features)
    rough : callable
        Scores from calibrated means, variances and the temperature.
    n : int
    eligible : ndarray of bool or None
    """
    quick, X = _quick(estimator, X)
    blocks = _blocks(len(X), eligible)

    def scored(rows: IntArray) -> FloatArray:
        with torch.no_grad():
            found = rough(*quick.loaded.calibrated(*quick.moments(X[rows])))
        return np.asarray(found.double().cpu().numpy())

    with thread_workers(len(blocks)) as workers:
        scores = workers.map(scored, blocks)
    rows = np.concatenate([np.empty(0, dtype=np.int64), *blocks])
    return rows[top(np.concatenate([np.empty(0), *scores]), n)]


def _blocks(n_rows: int, eligible: npt.NDArray[np.bool_] | None) -> list[IntArray]:
    """Rows that may be chosen, some at a time."""
    rows = np.arange(n_rows) if eligible is None else np.flatnonzero(eligible)
    return [rows[start : start + _SCREENED_ROWS] for start in range(0, rows.size, _SCREENED_ROWS)]


def _quick(estimator: Any, X: Any) -> tuple[_Quick, FloatArray]:
    """The model in single precision if that has digits enough, and validated rows."""
    loaded, X = estimator._ready(X)
    Lz = torch.as_tensor(estimator.model_.Lz).diagonal()
    if float(Lz.max()) <= _CONDITION * float(Lz.min()):
        loaded = estimator.model_.on(str(loaded.Z.device), torch.float32)
    return _Quick(loaded), X


class _Quick:
    """Upper bounds of variation ratios under a model."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        q = loaded.q
        eye = torch.eye(q.m.shape[1], dtype=torch.float64, device=q.m.device)
        # V_j = |R_j^-1 a|^2 for all functions in one product; R is at least the identity.
        inverse = torch.linalg.solve_triangular(q.R.double(), eye.expand(q.R.shape), upper=False)
        self.W = inverse.to(q.m.dtype).reshape(-1, q.m.shape[1]).mT.contiguous()

    def moments(self, X: FloatArray) -> tuple[Tensor, Tensor]:
        """Means and variances per class of rows."""
        A, residual = self.loaded.features(self.loaded.rows(X))
        return self._moments(A, A @ self.loaded.q.m.mT, residual)

    def _moments(self, A: Tensor, F: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        J, P = self.loaded.q.m.shape
        V = (A @ self.W).square_().reshape(-1, J, P).sum(2)
        tiny = torch.finfo(V.dtype).tiny ** 0.5
        return per_class_moments(F, (V + residual[:, None]).clamp_min(tiny))

    def survivors(self, X: FloatArray, floor: float, rows: IntArray) -> tuple[IntArray, FloatArray]:
        """Which of some rows may reach the floor, and what they reach at most."""
        loaded = self.loaded
        with torch.no_grad():
            Z = loaded.rows(X[rows])
            A, residual = loaded.features(Z)
            F = A @ loaded.q.m.mT
            prior = loaded.kernel.diag(loaded.params, Z)[:, None].expand_as(F)
            index = torch.arange(len(Z), device=F.device)
            if floor > 0.0:
                index = index[independent_bound(*per_class_moments(F, prior))[1] + TOLERANCE >= floor]
            F, s2 = self._moments(A[index], F[index], residual[index])
            keep = independent_bound(F, s2)[1] + TOLERANCE >= floor
            F, s2, index = F[keep], s2[keep], index[keep]
            keep = integrated_bound(F, s2, rough=True) + ROUGHNESS >= floor
            F, s2, index = F[keep], s2[keep], index[keep]
            upper = integrated_bound(F, s2) + TOLERANCE
            keep = upper >= floor
            reached = upper[keep].double().cpu().numpy()
            return rows[index[keep].cpu().numpy()], reached
