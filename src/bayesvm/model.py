"""A fitted model: plain arrays, frozen, enough to predict anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.core.covariance import Features, whitened_features
from bayesvm.core.gaussian import Gaussian
from bayesvm.core.kernels.base import Kernel, Params
from bayesvm.scaling import Scaler

__all__ = ["Model", "torch_dtype"]

FloatArray = npt.NDArray[np.floating]

_DTYPES = {"float64": torch.float64, "float32": torch.float32}


def torch_dtype(name: str) -> torch.dtype:
    """The torch type of a valid ``dtype`` option."""
    return _DTYPES[name]


@dataclass(frozen=True)
class Model:
    """Everything a prediction needs, on no device in particular.

    Attributes
    ----------
    scaler : Scaler
    kernel : Kernel
    params : dict of str to ndarray
        Unconstrained kernel parameters.
    Z : ndarray of shape (P, D)
        Standardised inducing points.
    Lz : ndarray of shape (P, P)
        Cholesky factor of K_ZZ.
    m, R : ndarray of shape (J, P) and (J, P, P)
        q(v_j): means and factors of the precisions; J is 1 for two classes.
    temperature, spread : float
    offset : ndarray of shape (n_classes,)
        How latents become class probabilities (eqs. 6.7, 6.9).
    n_classes : int
    """

    scaler: Scaler
    kernel: Kernel
    params: dict[str, FloatArray]
    Z: FloatArray
    Lz: FloatArray
    m: FloatArray
    R: FloatArray
    temperature: float
    spread: float
    offset: FloatArray
    n_classes: int

    def on(self, device: str, dtype: torch.dtype) -> LoadedModel:
        """The model as tensors on a device."""

        def tensor(a: FloatArray) -> Tensor:
            return torch.as_tensor(a, dtype=dtype, device=device)

        return LoadedModel(
            self.kernel,
            {k: tensor(v) for k, v in self.params.items()},
            tensor(self.Z),
            tensor(self.Lz),
            Gaussian(tensor(self.m), tensor(self.R)),
            self,
        )


@dataclass(frozen=True)
class LoadedModel:
    """A model as tensors."""

    kernel: Kernel
    params: Params
    Z: Tensor
    Lz: Tensor
    q: Gaussian
    model: Model

    def calibrated(self, F: Tensor, s2: Tensor) -> tuple[Tensor, Tensor, float]:
        """Moments and temperature from which class probabilities are computed (eqs. 6.7, 6.9)."""
        model = self.model
        offset = torch.as_tensor(model.offset, dtype=F.dtype, device=F.device)
        return F + offset, model.spread * s2, model.temperature

    def rows(self, X: FloatArray) -> Tensor:
        """Standardised rows as a tensor."""
        return torch.as_tensor(self.model.scaler.transform(X)).to(self.Z)

    def features(self, X: FloatArray) -> Features:
        """Whitened features of rows in the units of the data."""
        return whitened_features(self.kernel, self.params, self.Z, self.Lz, self.rows(X))


def to_numpy(t: Tensor) -> FloatArray:
    """A tensor as an array of its own."""
    a: FloatArray = t.detach().cpu().numpy().copy()
    return a
