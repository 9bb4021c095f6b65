"""The paper's recipe where a row is added at a time: Adam goes on from where it was."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from bayesvm import BayesianSVC

# A thousand after every query would take four minutes a run.
EPOCHS_PER_QUERY = 100


class PaperRecipe(BayesianSVC):
    """``BayesianSVC`` that learns from more rows by Adam itself, starting from the last fit.

    Rows must come standardised: the first handful of them says little about
    the scale of the rest. Needs ``warm_start=True``.
    """

    standardize = False

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on with all rows so far; anew while there are fewer rows than inducing points."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight)
        memory = self.memory_
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        rows = np.concatenate([memory.X, X])
        labels = np.concatenate([self.classes_[memory.y], y])
        weights = np.concatenate([memory.weight, weight])
        if len(self.inducing_points_) < int(self.n_inducing):
            del self.model_
            return self.fit(rows, labels, weights)
        epochs, self.max_iter = self.max_iter, EPOCHS_PER_QUERY
        try:
            return self.fit(rows, labels, weights)
        finally:
            self.max_iter = epochs
