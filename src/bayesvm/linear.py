"""Linear models as sparse models: points that span all linear functions, and weights read off q."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.core import linalg
from bayesvm.core.kernels.linear import IsotropicLinear
from bayesvm.inducing import distinct_rows
from bayesvm.model import Model, to_numpy

__all__ = ["spanning_points", "weight_covariances", "weight_draws", "weight_means"]

FloatArray = npt.NDArray[np.floating]


def spanning_points(intercept: bool) -> Callable[[Tensor, Tensor, int], Tensor]:
    """A choice of inducing points at which linear functions are known everywhere.

    The origin and the unit vectors, or the distinct rows if they are fewer:
    what a linear function does outside their span, no row can tell.
    """

    def choose(X: Tensor, weight: Tensor, n_inducing: int) -> Tensor:
        D = X.shape[1]
        unit = torch.eye(D, dtype=X.dtype, device=X.device)
        if X.shape[0] <= D + int(intercept):
            Z = X[distinct_rows(X)]
            return Z if intercept else Z[Z.any(1)] if bool(Z.any()) else unit[:1]
        return torch.cat([unit.new_zeros(1, D), unit]) if intercept else unit

    return choose


def weight_means(model: Model) -> FloatArray:
    r"""Posterior means of weights and, last, the intercept, in the units of the data, shape (J, D + 1).

    A function is :math:`f(x) = \tilde x^\top T v` with :math:`T = \nu^2 \tilde Z^\top L^{-\top}`
    and rows :math:`\tilde x = (x, 1)` (eq. 8.26).
    """
    draws = weight_draws(model)
    if draws is not None:
        means: FloatArray = draws.mean(0)
        return means
    return model.m @ _from_whitened(model).mT.numpy()


def weight_draws(model: Model) -> FloatArray | None:
    """Draws of weights and intercept from a sampler, shape (S, J, D + 1), if there are any."""
    return None if model.draws is None else model.draws @ _from_whitened(model).mT.numpy()


def weight_covariances(model: Model) -> FloatArray:
    r"""Posterior covariances of weights and intercept, shape (J, D + 1, D + 1) (eq. 8.26).

    Directions that the inducing points do not span keep their prior: the
    covariance is :math:`\nu^2 I - T (I - S) T^\top`.
    """
    draws = weight_draws(model)
    if draws is not None:
        apart = draws - draws.mean(0)
        covariances: FloatArray = np.einsum("sjd,sje->jde", apart, apart) / len(apart)
        return covariances
    kernel = _kernel(model)
    D = model.Z.shape[1]
    units, T = _to_units(model, D), _from_whitened(model)
    prior = units * np.exp(0.5 * float(model.params["log_variance"]))
    prior[:, D] *= float(kernel.intercept)
    R = torch.as_tensor(model.R, dtype=T.dtype)
    root = linalg.solve_lower(R, T.mT.expand(R.shape[0], -1, -1))
    return to_numpy(root.mT @ root + (prior @ prior.mT - T @ T.mT))


def _kernel(model: Model) -> IsotropicLinear:
    assert isinstance(model.kernel, IsotropicLinear)
    return model.kernel


def _from_whitened(model: Model) -> Tensor:
    """The map from v to weights and intercept in the units of the data, shape (D + 1, P)."""
    P, D = model.Z.shape
    Z = torch.as_tensor(np.c_[model.Z, np.full(P, float(_kernel(model).intercept))], dtype=torch.float64)
    variance = float(np.exp(model.params["log_variance"]))
    T = variance * linalg.solve_lower(torch.as_tensor(model.Lz, dtype=torch.float64), Z).mT
    return _to_units(model, D) @ T


def _to_units(model: Model, n_kept: int) -> Tensor:
    """From weights of standardised columns to those of the data, shape (D + 1, number kept + 1)."""
    scaler = model.scaler
    out = np.zeros((scaler.kept.shape[0] + 1, n_kept + 1))
    index = np.flatnonzero(scaler.kept)
    out[index, np.arange(n_kept)] = 1.0 / scaler.scale[index]
    out[-1, :n_kept] = -scaler.mean[index] / scaler.scale[index]
    out[-1, -1] = 1.0
    return torch.as_tensor(out)
