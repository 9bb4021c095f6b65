"""What a fitted hybrid classifier says about rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from bayesvm.nn.evaluating import feature_blocks
from bayesvm.nn.hybrid_inputs import as_rows
from bayesvm.nn.hybrid_network import chosen_device, dtype_of, first_features

__all__ = ["PredictsMixin"]

FloatArray = npt.NDArray[np.floating]


class PredictsMixin:
    """Predictions of ``network_`` and ``head_``, in batches whose size does not matter."""

    batch_size: int
    device: str
    classes_: npt.NDArray[Any]
    network_: nn.Module
    head_: nn.Module
    n_features_in_: int
    _n_dimensions: int

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Most probable class of each row: the argmax of ``predict_proba``."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities E[softmax(T f)], shape (n_rows, n_classes); rows sum to one."""
        p = self._map(X, lambda output: output.probabilities())
        return p / p.sum(1, keepdims=True)  # to the digits of doubles

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of the class probabilities, finite even where those vanish."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))

    def predict_latent(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of each class's latent function.

        Returns
        -------
        mean, std : ndarray of shape (n_rows, n_classes)
        """
        both = self._map(X, lambda output: torch.stack([output.mean, output.variance.sqrt()], 1))
        return both[:, 0], both[:, 1]

    def variation_ratio(self, X: Any) -> FloatArray:
        """How often the posterior disagrees with its own majority about the largest latent."""
        return self._map(X, lambda output: output.variation_ratio())

    def log_variation_ratio(self, X: Any) -> FloatArray:
        """Logarithm of the variation ratio, ordered even where the ratio underflows."""
        return self._map(X, lambda output: output.log_variation_ratio())

    def entropy(self, X: Any) -> FloatArray:
        """Entropy of the class probabilities in nats."""
        return self._map(X, lambda output: output.entropy())

    def mutual_information(self, X: Any) -> FloatArray:
        """The part of the entropy that more data could remove, in nats."""
        return self._map(X, lambda output: output.mutual_information())

    def features(self, X: Any) -> FloatArray:
        """What the network gives to the head, shape (n_rows, n_features)."""
        return np.concatenate([part.cpu().numpy() for part in self._features(X)])

    @property
    def temperature_(self) -> float:
        """Temperature T of the class probabilities, fitted on the held-out rows."""
        check_is_fitted(self)
        return float(self.head_.get_buffer("temperature"))

    @property
    def spread_(self) -> float:
        """By which latent variances are multiplied in class probabilities, fitted likewise."""
        check_is_fitted(self)
        return float(self.head_.get_buffer("spread"))

    def _features(self, X: Any) -> Iterator[Tensor]:
        """Features of the rows, in batches, where the head is."""
        check_is_fitted(self)
        rows = as_rows(X, dtype_of(self.network_))
        flat = rows.ndim == 2 and rows.shape[1] != self.n_features_in_
        if rows.ndim != self._n_dimensions or flat:
            raise ValueError(
                f"X has {rows[0].numel()} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: {self._n_dimensions} dimensions with that of the "
                f"rows; got shape {tuple(rows.shape)}"
            )
        device = chosen_device(self.device, strict=False)
        for module in (self.network_, self.head_):
            module.to(device).eval()
        _, dtype = first_features(self.network_, rows[:1].to(device), 0)
        for _, features in feature_blocks(self.network_, rows.to(dtype), device, rows=self.batch_size):
            yield features

    def _map(self, X: Any, function: Callable[[Any], Tensor]) -> FloatArray:
        """Apply a function of the head's output to all rows."""
        with torch.no_grad():
            parts = [function(self.head_(features)).double().cpu() for features in self._features(X)]
        return torch.cat(parts).numpy()
