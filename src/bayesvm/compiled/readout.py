"""From latent means and deviations to class probabilities, at the nodes that estimators use (eq. 6.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bayesvm.compiled.brief import Brief

__all__ = ["OwnProbabilities", "Readout", "SigmoidAtNodes", "SoftmaxAtNodes"]

Array = npt.NDArray[Any]

# Numbers of classes × rows × nodes treated at once: they stay in the cache.
_CHUNK_NUMBERS = 80_000
# Logarithms of odds end here, so that their exponentials are finite in single precision.
_LARGEST_LOG = 80.0


class Readout(Protocol):
    """Class probabilities (n, C) from means F (n, J) and variances s2 (n, J) or, if shared, (n, 1)."""

    def __call__(self, F: Array, s2: Array) -> Array: ...


@dataclass(frozen=True, repr=False)
class SoftmaxAtNodes(Brief):
    """E softmax(f + offset), f in units of the temperature.

    Attributes
    ----------
    offset : ndarray of shape (C,)
    nodes : ndarray of shape (C, 1, S)
        Standard normal, equally likely.
    farthest : float
        The largest of them in size.
    pooled : bool
        Whether probabilities are put into the order of the means.
    """

    offset: Array
    nodes: Array
    farthest: float
    pooled: bool

    def __call__(self, F: Array, s2: Array) -> Array:
        n, C = F.shape
        mean = F + self.offset
        mean -= mean.max(1, keepdims=True)
        mean = mean.astype(self.nodes.dtype, copy=False).T[:, :, None]
        deviation = np.sqrt(s2).astype(self.nodes.dtype, copy=False).T[:, :, None]
        proba = np.empty((C, n), self.nodes.dtype)
        size = max(1, _CHUNK_NUMBERS // self.nodes.size)
        is_calm = float(deviation.max()) * self.farthest < _LARGEST_LOG
        for start in range(0, n, size):
            rows = slice(start, start + size)
            f = deviation[:, rows] * self.nodes
            f += mean[:, rows]
            if not is_calm:
                f -= np.maximum.reduce(f, 0)
            np.exp(f, out=f)
            share = np.reciprocal(np.add.reduce(f, 0))
            # Weighted sums of the exponentials: no second pass to normalise each of them.
            np.einsum("cns,ns->cn", f, share, out=proba[:, rows])
        result: Array = proba.T.astype(np.float64, order="C")
        result /= np.add.reduce(result, 1, keepdims=True)
        if self.pooled:
            order = np.argsort(F, 1, kind="stable")
            np.put_along_axis(result, order, np.sort(result, 1), 1)
        return result


@dataclass(frozen=True, repr=False)
class SigmoidAtNodes(Brief):
    """The same for two classes, whose difference is one number.

    Attributes
    ----------
    offset : float
        On the difference.
    nodes, weight : ndarray of shape (S,)
    """

    offset: float
    nodes: Array
    weight: Array

    def __call__(self, F: Array, s2: Array) -> Array:
        difference = F[:, :1] if F.shape[1] == 1 else F[:, 1:] - F[:, :1]
        variance = s2 if F.shape[1] == 1 else np.add.reduce(np.broadcast_to(s2, F.shape), 1, keepdims=True)
        mean = (difference + self.offset).astype(self.nodes.dtype, copy=False)
        deviation = np.sqrt(variance).astype(self.nodes.dtype, copy=False)
        result = np.empty((F.shape[0], 2))
        size = max(1, _CHUNK_NUMBERS // self.nodes.size)
        for start in range(0, F.shape[0], size):
            rows = slice(start, start + size)
            odds = deviation[rows] * self.nodes
            odds += mean[rows]
            np.clip(odds, -_LARGEST_LOG, _LARGEST_LOG, out=odds)
            np.exp(odds, out=odds)
            first = np.reciprocal(1.0 + odds)
            result[rows, 0] = first @ self.weight
            result[rows, 1] = np.multiply(odds, first, out=odds) @ self.weight
        result /= np.add.reduce(result, 1, keepdims=True)
        return result


@dataclass(frozen=True)
class OwnProbabilities:
    """Those of a likelihood that is a distribution over classes: its own code, through torch.

    Attributes
    ----------
    likelihood : ProperLikelihood
    """

    likelihood: Any

    def __call__(self, F: Array, s2: Array) -> Array:
        import torch

        s2 = np.broadcast_to(s2, F.shape)
        if F.shape[1] == 1:  # a difference is dealt to two classes (eq. 7.1)
            F, s2 = np.concatenate([-0.5 * F, 0.5 * F], 1), np.repeat(0.5 * s2, 2, 1)
        with torch.no_grad():
            proba = self.likelihood.probabilities(torch.tensor(F), torch.tensor(s2)).proba
        return np.asarray(proba.to(torch.float64).numpy())
