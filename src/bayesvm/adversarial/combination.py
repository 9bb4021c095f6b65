"""A small classifier that tells attacked images from clean ones by all their scores at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["KINDS", "Combination", "Scores"]

Scores = dict[str, npt.NDArray[np.float64]]
KINDS = ("boosting", "logistic")
# Twice the same order: only the logarithm is used.
_UNUSED = "variation_ratio"


class Combination:
    """Log odds of an attack from scores; boosted trees or a regression of scikit-learn.

    Parameters
    ----------
    kind : {"boosting", "logistic"}
        Boosted trees find attacks in both tails of a score; the logistic
        regression has squares and products of the scores for that.
    seed : int

    Attributes
    ----------
    names : list of str
        Scores in the order of its columns, once it is fitted.
    """

    names: list[str]

    def __init__(self, kind: str = "boosting", seed: int = 0) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind must be 'boosting' or 'logistic', got {kind!r}")
        self._kind, self._seed = kind, seed

    def fit(self, clean: Scores, attacked: Scores, names: Iterable[str] | None = None) -> Combination:
        """Learn to tell the two kinds, which count alike, however many rows they have.

        Parameters
        ----------
        clean, attacked : dict of str to ndarray of shape (n,) and (m,)
        names : iterable of str or None
            Scores to use; None: all that both have.
        """
        both = [name for name in clean if name in attacked and name != _UNUSED]
        self.names = both if names is None else list(names)
        X = np.concatenate([self._table(clean), self._table(attacked)])
        sizes = [len(next(iter(part.values()))) for part in (clean, attacked)]
        weight = np.repeat([0.5 * sum(sizes) / size for size in sizes], sizes)
        step = "logisticregression__sample_weight" if self._kind == "logistic" else "sample_weight"
        self._fitted = self._made().fit(X, np.repeat([0, 1], sizes), **{step: weight})
        return self

    def log_odds(self, scores: Scores) -> npt.NDArray[np.float64]:
        """Log odds of an attack, (N,)."""
        found: npt.NDArray[np.float64] = self._fitted.decision_function(self._table(scores))
        return found

    def _table(self, scores: Scores) -> npt.NDArray[np.float64]:
        missing = [name for name in self.names if name not in scores]
        if missing:
            raise ValueError(f"the scores {missing} are missing; this detector was fitted with {self.names}")
        return np.stack([scores[name] for name in self.names], 1)

    def _made(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import PolynomialFeatures, QuantileTransformer

        if self._kind == "boosting":
            return HistGradientBoostingClassifier(
                max_iter=150,
                learning_rate=0.08,
                max_leaf_nodes=16,
                min_samples_leaf=40,
                random_state=self._seed,
            )
        # Ranks as normal quantiles: scores have tails of very different lengths.
        ranks = QuantileTransformer(n_quantiles=200, output_distribution="normal", random_state=self._seed)
        return make_pipeline(ranks, PolynomialFeatures(2), LogisticRegression(C=1.0, max_iter=2000))
