"""Learning from more rows, for estimators whose posterior is variational."""

from __future__ import annotations

from typing import Any, Self

from sklearn.utils.metaestimators import available_if

from bayesvm.estimators.callbacks import with_callbacks
from bayesvm.estimators.fitting import can_add_rows, partial_fit_estimator

__all__ = ["AddsRows"]


class AddsRows:
    """``partial_fit`` for a :class:`LatentClassifier`."""

    @available_if(can_add_rows)
    @with_callbacks
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, forgetting: float = 0.0
    ) -> Self:
        """Learn from more rows; the old ones need not be given again.

        Up to 2000 rows are remembered. While that is all there are, the
        result is that of a ``fit`` to all of them, with the kernel learned
        anew whenever the rows have grown by a quarter. Later the kernel and
        the scale of the features stay; rows beyond 2000 are forgotten at
        random, and what they taught stays in the posterior. Inducing points
        are added where new rows need them, up to ``n_inducing`` (with "auto"
        up to twice as many as ``fit`` would use). ``loo_score_`` and
        ``loo_log_loss_`` then judge remembered and new rows, ``loo_proba_``
        has the new rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or str
            Class labels, or the name of their column in a data frame.
        classes : array-like or None
            All labels that will ever occur; needed in the first call only.
        sample_weight : array-like of shape (n_rows,), str or None
        forgetting : float, default=0.0
            Share of what is known that this call forgets, from 0 to 1, for streams
            whose law drifts: earlier rows lose that share of their weight, remembered
            or not. In the long run the model knows as much as 1 / forgetting
            batches say.

        Returns
        -------
        self
        """
        partial_fit_estimator(self, X, y, classes, sample_weight, forgetting)
        return self
