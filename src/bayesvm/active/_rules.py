"""Which rows of a pool to ask for: a rule per policy, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core.predictive import margins_at_nodes
from bayesvm.active import _scores
from bayesvm.active._scores import entropy_scores, is_fitted, margin_scores, softmax_entropy_scores
from bayesvm.active._shortlist import can_screen, screened, shortlisted, top

# --- A batch of rows that differ: each is asked for what the others would leave unknown.


FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]
# Rows looked at first, for each row of the batch; more are looked at if need be.
_FIRST_LOOK = 64
# A latent known this much better than before is known.
_KNOWN = 1e-10


class Covariance(Protocol):
    """Posterior covariance of the latent functions between rows."""

    def variance(self, rows: IntArray) -> FloatArray:
        """Variances, shape (len(rows), n_latents)."""

    def with_row(self, rows: IntArray, row: int) -> FloatArray:
        """Covariances of rows with one row, shape (len(rows), n_latents)."""


class Batch(NamedTuple):
    """Rows in the order chosen and the worth of all rows when each was chosen.

    Attributes
    ----------
    rows : ndarray of shape (n,)
    looked_at : ndarray of shape (m,)
        Rows whose worth was computed; any other is worth less than those chosen.
    worth : ndarray of shape (n, m)
        NaN for rows chosen before.
    """

    rows: IntArray
    looked_at: IntArray
    worth: FloatArray

    @property
    def least(self) -> float:
        """The smallest worth at which a row was chosen."""
        return float(np.nanmax(self.worth, 1).min()) if len(self.rows) else np.inf


def greedy_batch(
    scores: FloatArray,
    covariance: Covariance,
    n: int,
    rng: np.random.Generator | None = None,
    first_look: int | None = None,
) -> Batch:
    r"""Rows one after another by score times the share of latent variance the batch so far leaves.

    With B the rows chosen so far, the worth of a row is

    .. math:: score(x) \cdot \frac{1}{J} \sum_j \frac{Var[f_j(x) \mid f_j(B)]}{Var[f_j(x)]} ,

    so that a copy of a chosen row is worth nothing and a row far from all of
    them its whole score. The worth is at most the score: rows whose score
    misses the worth of every chosen row need no covariances.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
        NaN or minus infinity for rows that may not be chosen.
    covariance : Covariance
    n : int
    rng : Generator or None
        Decides between equal rows.
    first_look : int or None
        Rows whose covariances are looked at first; None: 64 for each row of the batch.
    """
    order = top(scores, len(scores), rng)
    n = min(n, order.size)
    look = min(order.size, first_look or max(1, _FIRST_LOOK * n))
    while True:
        batch = _greedy(scores, covariance, order[:look], n)
        beyond = scores[order[look]] if look < order.size else -np.inf
        if batch is not None and batch.least >= beyond:
            return batch
        look = min(order.size, 4 * look)


def _greedy(scores: FloatArray, covariance: Covariance, rows: IntArray, n: int) -> Batch | None:
    """The batch among some rows, in their order where worths are equal; None if they are too few."""
    if rows.size < n:
        return None
    before = covariance.variance(rows)
    left = before.copy()
    columns = np.zeros((n, *before.shape))
    worth = np.empty((n, rows.size))
    chosen = np.empty(n, dtype=np.int64)
    free = np.ones(rows.size, dtype=bool)
    for b in range(n):
        share = (np.maximum(left, 0.0) / before).mean(1)
        worth[b] = np.where(free, scores[rows] * share, np.nan)
        i = int(np.nanargmax(worth[b]))
        chosen[b], free[i] = i, False
        # One column of a pivoted Cholesky factor per latent function.
        column = covariance.with_row(rows, int(rows[i])) - np.einsum(
            "bnj,bj->nj", columns[:b], columns[:b, i]
        )
        known = left[i] <= _KNOWN * before[i]
        columns[b] = np.where(known, 0.0, column / np.sqrt(np.where(known, 1.0, left[i])))
        left = left - columns[b] ** 2
    return Batch(rows[chosen], rows, worth)


class PosteriorCovariance:
    r"""Covariance :math:`k(x, x') - a^\top a' + a^\top S_j a'` of a fitted classifier at some rows.

    Parameters
    ----------
    estimator : LatentClassifier
        Fitted.
    X : array-like of shape (n_rows, n_features)
    """

    def __init__(self, estimator: Any, X: Any) -> None:
        self._model, self._X = estimator._ready(X)

    def variance(self, rows: IntArray) -> FloatArray:
        """Variances, shape (len(rows), n_latents)."""
        with torch.no_grad():
            X = self._model.rows(self._X[rows])
            A, residual = self._model.features(X)
            V = self._explained(A).square().sum(1).mT + residual[:, None]
            return V.clamp_min(torch.finfo(V.dtype).tiny).cpu().numpy()

    def with_row(self, rows: IntArray, row: int) -> FloatArray:
        """Covariances of rows with one row, shape (len(rows), n_latents)."""
        model = self._model
        with torch.no_grad():
            X, x = model.rows(self._X[rows]), model.rows(self._X[row : row + 1])
            A, a = model.features(X).A, model.features(x).A
            prior = model.kernel.cross(model.params, X, x)[:, 0] - (A @ a.mT)[:, 0]
            explained = (self._explained(A) * self._explained(a)).sum(1).mT
            return (explained + prior[:, None]).cpu().numpy()

    def _explained(self, A: torch.Tensor) -> torch.Tensor:
        """What has the explained covariances as its inner products over the second axis, (J, P or S, n)."""
        q, drawn = self._model.q_of([0]), self._model.draws
        if drawn is None:
            return torch.linalg.solve_triangular(q.R, A.mT.expand(q.R.shape[0], -1, -1), upper=False)
        deviations = (drawn - drawn.mean(0)).permute(1, 0, 2) / drawn.shape[0] ** 0.5
        return deviations @ A.mT


Mask = npt.NDArray[np.bool_]
# Rows of a large pool whose scores are computed, and the nodes that choose them.
PROMISING = 20_000
_FEW_NODES = 64
_FEW_NODES_ON_A_LINE = 64


class Choice(NamedTuple):
    """Rows to ask for, best first, and the utilities they were chosen by.

    Attributes
    ----------
    rows : ndarray of shape (n,)
    utilities : ndarray of shape (n, n_rows)
        Row b: the utilities of all rows when the b-th was chosen, NaN for rows
        that could not be.
    """

    rows: IntArray
    utilities: FloatArray


class Rule(Protocol):
    """How rows are chosen with a fitted classifier."""

    def choose(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> IntArray:
        """Positions of the n rows to ask for, best first."""

    def with_utilities(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> Choice:
        """The same rows with the utilities of all."""


@dataclass(frozen=True)
class ByScore:
    """The rows with the largest scores, whatever they have in common."""

    scores: Callable[[Any, Any], FloatArray]

    def choose(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> IntArray:
        """Positions of the n rows to ask for, best first."""
        return top(_masked(self.scores(classifier, X), eligible), n, rng)

    def with_utilities(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> Choice:
        """The same rows with the utilities of all."""
        scores = _masked(self.scores(classifier, X), eligible)
        return _with_repeated(top(scores, n, rng), scores)


@dataclass(frozen=True)
class ByVariationRatio(ByScore):
    """The same for the variation ratio, integrated only for rows that can be among the best."""

    def choose(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> IntArray:
        """Positions of the n rows to ask for, best first."""
        inner, rows = _scores.unwrapped(classifier, X)
        if not can_screen(inner):
            return super().choose(classifier, X, n, eligible, rng)
        return screened(inner, rows, n, eligible, rng)[0]

    def with_utilities(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> Choice:
        """The same rows, ties included, with the utilities of all."""
        chosen = self.choose(classifier, X, n, eligible, rng)
        return _with_repeated(chosen, _masked(self.scores(classifier, X), eligible))


@dataclass(frozen=True)
class ByProbabilities(ByScore):
    """The same for scores of class probabilities, computed only for rows that look promising.

    In a large pool a few nodes of the quadrature choose the promising rows.
    Looking at one row in fifty of 60 000 with ten classes, the row chosen was
    the best by entropy and mutual information and 4e-4 from it, at most, by
    margin, where thousands of rows are ties up to the error of the quadrature.
    """

    rough: Callable[[Tensor, Tensor, float], Tensor]

    def choose(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> IntArray:
        """Positions of the n rows to ask for, best first."""
        inner, rows = _scores.unwrapped(classifier, X)
        look = max(PROMISING, 4 * n)
        if len(X) <= 2 * look or not can_screen(inner) or inner.model_.likelihood is not None:
            return super().choose(classifier, X, n, eligible, rng)
        promising = shortlisted(inner, rows, self.rough, look, eligible)
        return promising[top(self.scores(inner, rows[promising]), n, rng)]


class BatchByVariationRatio:
    """Rows with large variation ratios that are not each other's copies."""

    def choose(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> IntArray:
        """Positions of the n rows to ask for, best first."""
        inner, rows = _scores.unwrapped(classifier, X)
        if len(X) > 2 * PROMISING and can_screen(inner):
            best, ratios = screened(inner, rows, max(256, 64 * n), eligible, rng)
            scores = np.full(len(X), -np.inf)
            scores[best] = ratios
            batch = greedy_batch(scores, PosteriorCovariance(inner, rows), n, rng, first_look=best.size)
            if batch.least >= ratios[-1]:  # no row beyond could be worth more
                return batch.rows
        scores = _masked(_variation_ratio(classifier, X), eligible)
        if not is_fitted(classifier):
            return top(scores, n, rng)
        return greedy_batch(scores, _covariance(classifier, X), n, rng).rows

    def with_utilities(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> Choice:
        """The same rows with the utilities of all."""
        scores = _masked(_variation_ratio(classifier, X), eligible)
        if not is_fitted(classifier):
            return _with_repeated(top(scores, n, rng), scores)
        batch = greedy_batch(scores, _covariance(classifier, X), n, rng, first_look=len(scores))
        utilities = np.full((len(batch.rows), len(scores)), np.nan)
        utilities[:, batch.looked_at] = batch.worth
        return Choice(batch.rows, utilities)


class AtRandom:
    """A random row: the baseline for every other policy."""

    def choose(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> IntArray:
        """Positions of the n rows to ask for, best first."""
        allowed = np.arange(len(X)) if eligible is None else np.flatnonzero(eligible)
        return rng.choice(allowed, min(n, allowed.size), replace=False)

    def with_utilities(
        self, classifier: Any, X: Any, n: int, eligible: Mask | None, rng: np.random.Generator
    ) -> Choice:
        """The same rows with the utilities of all."""
        rows = self.choose(classifier, X, n, eligible, rng)
        return _with_repeated(rows, _masked(np.zeros(len(X)), eligible))


def _masked(scores: FloatArray, eligible: Mask | None) -> FloatArray:
    return scores if eligible is None else np.where(eligible, scores, -np.inf)


def _with_repeated(rows: IntArray, scores: FloatArray) -> Choice:
    """Utilities that change only in that a chosen row cannot be chosen again."""
    utilities = np.tile(np.where(scores > -np.inf, scores, np.nan), (len(rows), 1))
    for b in range(1, len(rows)):
        utilities[b, rows[:b]] = np.nan
    return Choice(rows, utilities)


def _covariance(classifier: Any, X: Any) -> PosteriorCovariance:
    inner, rows = _scores.unwrapped(classifier, X)
    if not hasattr(inner, "model_"):
        raise TypeError(
            f"the policy 'batch' needs the posterior covariance, which {type(inner).__name__} does not have; "
            "use BayesianSVC, or another policy"
        )
    return PosteriorCovariance(inner, rows)


def _variation_ratio(classifier: Any, X: Any) -> FloatArray:
    return _scores.disagreement(classifier, X, information=False)


def _mutual_information(classifier: Any, X: Any) -> FloatArray:
    return _scores.disagreement(classifier, X, information=True)


def _softmax_entropy(classifier: Any, X: Any) -> FloatArray:
    if not is_fitted(classifier):
        return np.zeros(len(X))
    moments = _scores.latent_moments(classifier, X)
    if moments is None:
        raise TypeError(
            f"{type(classifier).__name__} has no latent functions (predict_latent); "
            "use the policy 'entropy', which needs predict_proba alone"
        )
    return softmax_entropy_scores(moments[0])


def _at_few_nodes(F: Tensor, s2: Tensor, T: float) -> tuple[Tensor, Tensor]:
    """Softmax of the latents at nodes, (C, N, S), and their weights: rough, but a fifth of the time.

    Two classes are integrated over a line from one tail to the other, more over points drawn well.
    """
    n_nodes = _FEW_NODES if F.shape[1] > 2 else _FEW_NODES_ON_A_LINE
    f, w = margins_at_nodes(F, s2, F.argmax(1), n_nodes)
    return torch.softmax(f.mul_(T), 0), w


def _rough_margin(F: Tensor, s2: Tensor, T: float) -> Tensor:
    p, w = _at_few_nodes(F, s2, T)
    best = (p @ w).mT.topk(2, dim=1).values
    return best[:, 1] - best[:, 0]


def _rough_entropy(F: Tensor, s2: Tensor, T: float) -> Tensor:
    p, w = _at_few_nodes(F, s2, T)
    return torch.special.entr(p @ w).sum(0)


def _rough_information(F: Tensor, s2: Tensor, T: float) -> Tensor:
    p, w = _at_few_nodes(F, s2, T)
    return torch.special.entr(p @ w).sum(0) - torch.special.entr(p).sum(0) @ w


def _margin(classifier: Any, X: Any) -> FloatArray:
    return margin_scores(_scores.probabilities(classifier, X))


def _entropy(classifier: Any, X: Any) -> FloatArray:
    return entropy_scores(_scores.probabilities(classifier, X))


RULES: dict[str, Rule] = {
    "variation_ratio": ByVariationRatio(_variation_ratio),
    "softmax_entropy": ByScore(_softmax_entropy),
    "margin": ByProbabilities(_margin, _rough_margin),
    "entropy": ByProbabilities(_entropy, _rough_entropy),
    "bald": ByProbabilities(_mutual_information, _rough_information),
    "batch": BatchByVariationRatio(),
    "random": AtRandom(),
}


def rule_named(name: str) -> Rule:
    """The rule of that name.

    Raises
    ------
    ValueError
        If there is none.
    """
    if name not in RULES:
        raise ValueError(f"policy={name!r} is not known; use one of {', '.join(map(repr, RULES))}")
    return RULES[name]
