"""The local part: leave-one-out chooses whether there is one, and its covariance (section 10)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core import gaussian
from bayesvm._core.kernels.compose import slope_variances
from bayesvm._core.likelihoods.base import per_class_moments
from bayesvm._core.nearest import Neighbours, apart, local_mean, nearest
from bayesvm._core.predictive import log_softmax_pairwise
from bayesvm._core.sites import cavity
from bayesvm._fit.groups import without_groups
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.task import Ascent

FloatArray = npt.NDArray[np.floating]

NEIGHBOURS = 16
MOST_ROWS = 100_000
MOST_CLASSES = 100
# Rows whose leave-one-out decides, and those of them that choose what is decided about: trying every
# choice on all of them took most of a short fit (digits with 64 points: .88 of 1.25 s). The more classes, the
# fewer: every function of a row is a system of its own.
_JUDGES = 1000
_FEWEST_FIRST, _FIRST_FUNCTIONS = 256, 2560
_JUDGED_NUMBERS = 4_000_000
# Lengths in distances to the nearest other row; the first knows repeated rows only.
_LENGTHS = (0.01, 0.1, 0.3, 0.7, 1.5, 3.0)
_VARIANCES = (3.0, 0.5, 10.0, 30.0)
# Stand-ins for the calibration that follows.
_TEMPERATURES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_SPREADS = (1.0, 0.1)
# What the local part must gain, in nats and in standard errors of the gain.
_LEAST_GAIN = 3.0
_LEAST_ERRORS = 2.0
# How far the sites of one row may move a latent function: the hinge is flat
# beyond its margin, unlike its Gaussian site.
_REACH = 3.0


@dataclass(frozen=True)
class LocalPart:
    """Rows, what their sites pull beyond the smooth part, and a short covariance.

    Attributes
    ----------
    scale : ndarray of shape (D,)
        Factors that make standardised columns comparable.
    middle : ndarray of shape (D,)
        Medians of the scaled rows: outliers may put all others far from zero.
    X : ndarray of shape (N, D)
        Scaled rows about the middle.
    W, b : ndarray of shape (N, J)
        Precisions and pull of the sites (eq. 10.1).
    variance, length, typical : float
        Of the covariance, and a typical distance.
    """

    scale: FloatArray
    middle: FloatArray
    X: FloatArray
    W: FloatArray
    b: FloatArray
    variance: float
    length: float
    typical: float

    def on(self, device: str) -> LoadedLocal:
        """The same as tensors on a device, always in double precision."""
        scale, middle, X, W, b = (
            torch.as_tensor(a, dtype=torch.float64, device=device)
            for a in (self.scale, self.middle, self.X, self.W, self.b)
        )
        return LoadedLocal(scale, middle, X, W, b, self.variance, self.length, self.typical)


class LoadedLocal(NamedTuple):
    """A local part as tensors."""

    scale: Tensor
    middle: Tensor
    X: Tensor
    W: Tensor
    b: Tensor
    variance: float
    length: float
    typical: float

    def mean(self, rows: Tensor) -> Tensor:
        """What to add to the means of standardised rows, shape (M, J)."""
        near = nearest(self.X, rows * self.scale - self.middle, NEIGHBOURS, self.typical)
        mean = local_mean(self.X, near, self.W, self.b, None, self.variance, self.length)
        return mean.to(rows.dtype)

    def mean_without_self(self, rows: TrainingRows, some: slice) -> Tensor:
        """The same at some training rows, each without what is left out with it (eq. 10.3)."""
        near = nearest(self.X, self.X[some], NEIGHBOURS, self.typical)
        share = _left_of_neighbours(near, rows, some)
        mean = local_mean(self.X, near, self.W, self.b, share, self.variance, self.length)
        return mean.to(rows.X.dtype)


def _left_of_neighbours(near: Neighbours, rows: TrainingRows, some: slice) -> Tensor:
    """Share of each neighbour of some rows that is left when the row is left out, or its group."""
    if rows.group is not None:
        return (rows.group[near.rows] != rows.group[some, None]).double()
    own = torch.arange(some.start, some.stop, device=rows.X.device)
    weight = rows.weight[some]
    left = (weight - rows.unit[some]) / weight.clamp_min(torch.finfo(weight.dtype).tiny)
    return torch.where(near.rows == own[:, None], left[:, None].double(), torch.ones_like(near.d2))


def fit_local(rows: TrainingRows, ascent: Ascent, n_members: int = 1) -> LocalPart | None:
    """The local part that leave-one-out selects, or None.

    Parameters
    ----------
    rows : TrainingRows
    ascent : Ascent
        A variational fit; its sites are kept.
    n_members : int
        Likelihoods whose functions it holds side by side.
    """
    if not 2 * NEIGHBOURS <= len(rows) <= MOST_ROWS or rows.n_classes > MOST_CLASSES:
        return None
    with torch.no_grad():
        return _fit(rows, ascent, n_members)


def _fit(rows: TrainingRows, ascent: Ascent, n_members: int) -> LocalPart | None:
    n = min(len(rows), _JUDGES, max(100, _JUDGED_NUMBERS // rows.n_classes**2))
    judges = slice(0, n)
    scale = _scale(rows).double()
    X = rows.X * scale
    middle = X.median(0).values
    X = X - middle
    typical = _typical_distance(X[judges], X)
    if not math.isfinite(typical):
        return None
    W, b = _pull(rows, ascent)
    near = nearest(X, X[judges], NEIGHBOURS, typical)
    between = apart(X, near.rows)
    y, weight = rows.y[judges], rows.evidence[judges]
    share = _left_of_neighbours(near, rows, judges)
    # The last member decides for all (34 small sets: log-loss .563 without a local part, .561 where the hinge
    # decides, .552 where the softmax does).
    last = slice(-(W.shape[1] // n_members), None)
    F, V = (a[:, last] for a in _left_out(rows, ascent, judges))

    def score(e: Tensor | float, some: slice) -> Tensor:
        """Weighted log-probabilities of labels, at the temperature and spread that suit them best."""
        mean, s2 = per_class_moments(F[some] + e, V[some])
        own = [
            log_softmax_pairwise(mean, spread * s2, T).gather(1, y[some, None])[:, 0] * weight[some]
            for T in _TEMPERATURES
            for spread in _SPREADS
        ]
        return max(own, key=lambda row: float(row.sum()))

    def judged(variance: float, length: float, some: slice) -> Tensor:
        close = Neighbours(near.rows[some], near.d2[some])
        left = None if share is None else share[some]
        span = length * typical
        mean = local_mean(X, close, W[:, last], b[:, last], left, variance, span, between[some])
        return score(mean.to(F.dtype), some)

    first = slice(0, min(n, max(_FEWEST_FIRST, _FIRST_FUNCTIONS // rows.n_classes)))
    tried = {(_VARIANCES[0], u): float(judged(_VARIANCES[0], u, first).sum()) for u in _LENGTHS}
    length = max(tried, key=tried.__getitem__)[1]
    if tried[_VARIANCES[0], length] <= float(score(0.0, first).sum()):
        return None
    tried |= {(s, length): float(judged(s, length, first).sum()) for s in _VARIANCES[1:]}
    variance, length = max(tried, key=tried.__getitem__)
    gain = judged(variance, length, judges) - score(0.0, judges)
    error = float(gain.std()) * math.sqrt(n)
    if float(gain.sum()) < max(_LEAST_GAIN, _LEAST_ERRORS * error):
        return None
    scale_, middle_, X_, W_, b_ = (t.cpu().numpy() for t in (scale, middle, X, W, b))
    return LocalPart(scale_, middle_, X_, W_, b_, variance, length * typical, typical)


def _scale(rows: TrainingRows) -> Tensor:
    """Columns scaled by how fast the functions vary along them, if the kernel has a relevance."""
    D = rows.X.shape[1]
    try:
        scale = slope_variances(rows.kernel, rows.params, D).to(rows.X).sqrt()
    except AttributeError:  # an optional method of a kernel, or of a part of it
        return rows.X.new_ones(D)
    size = scale.square().mean().sqrt()
    return scale / size if bool(size > 0) else torch.ones_like(scale)


def _typical_distance(judges: Tensor, X: Tensor) -> float:
    """Median distance to the nearest row elsewhere."""
    d2 = nearest(X, judges, NEIGHBOURS, 0.0).d2
    apart = torch.where(d2 > 0, d2, torch.full_like(d2, math.inf)).amin(1)
    apart = apart[apart.isfinite()]
    return float(apart.median().sqrt()) if len(apart) else math.inf


def _pull(rows: TrainingRows, ascent: Ascent) -> tuple[Tensor, Tensor]:
    """Pull G - W F of the sites and their precisions, no less than reach allows (eq. 10.1)."""
    q = ascent.q
    J = q.m.shape[0]
    W, b = (rows.X.new_empty(len(rows), J, dtype=torch.float64) for _ in range(2))
    for block in rows.blocks(_JUDGED_NUMBERS // (J + q.m.shape[1])):
        W_n, G_n = ascent.sites.dense(block.rows, J)
        c = block.weight[:, None]
        W[block.rows] = c * W_n
        b[block.rows] = c * (G_n - W_n * gaussian.mean(q, block.features.A))
    return torch.maximum(W.clamp_min_(0.0), b.abs() / _REACH), b


def _left_out(rows: TrainingRows, ascent: Ascent, judges: slice) -> tuple[Tensor, Tensor]:
    """Moments of the smooth part at some rows without each (eqs. 5.1, 5.2), or without its group."""
    q = ascent.own
    A, residual = rows.features(rows.X[judges])
    if rows.group is not None:
        F, V, _ = without_groups(rows, rows.group, ascent)
        return F[judges], V[judges] + residual[:, None]
    W, G = ascent.sites.dense(judges, q.m.shape[0])
    unit = rows.unit[judges, None]
    left = cavity(gaussian.mean(q, A), gaussian.variance(q, A), unit * W, unit * G)
    return left.F, left.V + residual[:, None]
