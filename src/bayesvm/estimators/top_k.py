"""The few most probable classes, for estimators with many of them."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm import top_k
from bayesvm.estimators.options import check_number
from bayesvm.model import LoadedModel
from bayesvm.top_k import TopK

__all__ = ["PredictsTopK"]

FloatArray = npt.NDArray[np.floating]


class PredictsTopK:
    """``predict_top_k`` for a :class:`LatentClassifier`."""

    classes_: npt.NDArray[Any]

    def predict_top_k(self, X: Any, k: int = 5, max_left_out: float = 1e-3) -> TopK:
        """The most probable classes of each row, and a bound on what all others have.

        With thousands of classes most have next to no probability, and most
        of the work of ``predict_proba`` goes into finding that out. Here the
        latent means of all classes are computed, the variances only of
        those that matter. Probabilities and ``predict_proba`` differ by at
        most ``left_out``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        k : int
            How many classes; all, if there are fewer.
        max_left_out : float
            More classes are computed, if need be all, until the others
            together have at most this probability.

        Returns
        -------
        TopK
            ``classes`` and ``probabilities`` of shape (n_rows, k), the most
            probable first, and ``left_out`` of shape (n_rows,).
        """
        model, X = self._ready(X)
        check_number("k", k, numbers.Integral, 1, False)
        check_number("max_left_out", max_left_out, numbers.Real, 0, False)
        best = top_k.top_k(model, X, min(int(k), len(self.classes_)), float(max_left_out))
        return TopK(self.classes_[best.best], best.proba, best.left_out)

    def _ready(self, X: Any) -> tuple[LoadedModel, FloatArray]:
        """The model on its device and validated rows."""
        raise NotImplementedError
