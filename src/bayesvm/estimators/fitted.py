"""Small read-only objects that a fitted estimator shows: its kernel and its sites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from bayesvm.core.kernels.base import Kernel
from bayesvm.model import Model, to_numpy
from bayesvm.scaling import Scaler

__all__ = ["FittedKernel", "SiteArrays", "relevance"]

FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True)
class FittedKernel:
    """A kernel with its learned parameters, callable on rows in the units of the data.

    Attributes
    ----------
    kernel : Kernel
    params : dict of str to ndarray
        Free parameters; names that start with ``log_`` are logarithms, in
        units of standard deviations of the columns.
    """

    kernel: Kernel
    params: dict[str, FloatArray]
    scaler: Scaler

    def __call__(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        """Covariances between the rows of X and of Y (or of X), shape (n, m)."""
        params = {k: torch.as_tensor(v) for k, v in self.params.items()}
        A = torch.as_tensor(self.scaler.transform(np.asarray(X, dtype=np.float64)))
        B = A if Y is None else torch.as_tensor(self.scaler.transform(np.asarray(Y, dtype=np.float64)))
        return to_numpy(self.kernel.cross({k: v.to(A) for k, v in params.items()}, A, B))

    def __repr__(self) -> str:
        return f"FittedKernel({self.kernel!r})"


@dataclass(frozen=True)
class SiteArrays:
    """Gaussian sites of the distinct training rows, for one unit of weight.

    Attributes
    ----------
    classes : ndarray of shape (M, K) or None
        Latent functions the columns belong to; None: all of them, in order.
    precision, linear : ndarray of shape (M, K)
    index : ndarray of shape (N,)
        Distinct row of each training row; -1 where its weight was zero.
    """

    classes: npt.NDArray[np.int64] | None
    precision: FloatArray
    linear: FloatArray
    index: npt.NDArray[np.int64]


def relevance(model: Model) -> FloatArray:
    """Share of each feature in the prior variance of the latent slopes; sums to one.

    Raises
    ------
    AttributeError
        If the kernel is a user's own and has no ``relevance`` method.
    """
    if not hasattr(model.kernel, "relevance"):
        raise AttributeError(
            f"kernel {model.kernel!r} has no method relevance(params, n_features), so there is no "
            "feature_relevance_"
        )
    kept = model.scaler.kept
    params = {k: torch.as_tensor(v) for k, v in model.params.items()}
    share = np.zeros(kept.shape[0])
    share[kept] = to_numpy(model.kernel.relevance(params, int(kept.sum())))
    total = share.sum()
    return share / total if total > 0 else share
