"""Large pools: the best rows under a fitted model, most rows seen only from afar."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.active.crew import crew
from bayesvm.active.shortlist import (
    ROUGHNESS,
    TOLERANCE,
    best_first,
    independent_bound,
    integrated_bound,
    top,
)
from bayesvm.latents import latents_of_classes
from bayesvm.model import LoadedModel

__all__ = ["can_screen", "screened", "shortlisted"]

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]
# Rows that a thread treats at once, and blocks after which all know what they must beat.
_BLOCK_ROWS = 8192
_WAVE = 8
# Inducing points as close to each other as this leave no digits to single precision.
_CONDITION = 1e3
# Rows of each block whose ratio is computed.
_PROBES = 4


def can_screen(estimator: Any) -> bool:
    """Whether an estimator's latents are a Gaussian q without a local part, whose cost is another."""
    model = getattr(estimator, "model_", None)
    return model is not None and model.draws is None and model.local is None


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
    with crew(len(blocks)) as hands:
        for first in range(0, len(blocks), _WAVE):
            floor = float(best[0])
            wave = blocks[first : first + _WAVE]
            found = hands.map(partial(quick.survivors, X, floor), wave)
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

    with crew(len(blocks)) as hands:
        scores = hands.map(scored, blocks)
    rows = np.concatenate([np.empty(0, dtype=np.int64), *blocks])
    return rows[top(np.concatenate([np.empty(0), *scores]), n)]


def _blocks(n_rows: int, eligible: npt.NDArray[np.bool_] | None) -> list[IntArray]:
    """Rows that may be chosen, some at a time."""
    rows = np.arange(n_rows) if eligible is None else np.flatnonzero(eligible)
    return [rows[start : start + _BLOCK_ROWS] for start in range(0, rows.size, _BLOCK_ROWS)]


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
        return latents_of_classes(F, (V + residual[:, None]).clamp_min(tiny))

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
                index = index[independent_bound(*latents_of_classes(F, prior))[1] + TOLERANCE >= floor]
            F, s2 = self._moments(A[index], F[index], residual[index])
            keep = independent_bound(F, s2)[1] + TOLERANCE >= floor
            F, s2, index = F[keep], s2[keep], index[keep]
            keep = integrated_bound(F, s2, rough=True) + ROUGHNESS >= floor
            F, s2, index = F[keep], s2[keep], index[keep]
            upper = integrated_bound(F, s2) + TOLERANCE
            keep = upper >= floor
            reached = upper[keep].double().cpu().numpy()
            return rows[index[keep].cpu().numpy()], reached
