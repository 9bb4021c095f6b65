"""Compiling a fitted model for serving."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from bayesvm.compiled import CompiledPredictor
from bayesvm.compiled.folding import compile_model
from bayesvm.model import Model

__all__ = ["Compiles"]


class Compiles:
    """``compile_predictor`` for a :class:`LatentClassifier`."""

    model_: Model
    classes_: npt.NDArray[Any]

    def compile_predictor(self, dtype: str = "float32") -> CompiledPredictor:
        """A small object that predicts as this estimator does now, several times as fast.

        Probabilities agree with ``predict_proba`` to 1e-4 in single and to
        1e-8 in double precision. Single precision is checked at the inducing
        points and between them; where it would not keep that, the predictor
        is made in double precision (its ``dtype`` says which it is).

        Parameters
        ----------
        dtype : {"float32", "float64"}
            Precision of the large products.

        Returns
        -------
        CompiledPredictor

        Raises
        ------
        ValueError
            If the posterior is a set of draws, which cannot be folded.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return compile_model(self.model_, self.classes_, None if names is None else tuple(names), dtype)
