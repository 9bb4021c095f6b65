"""A fitted model: plain arrays, frozen, enough to predict anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.core.covariance import Features, whitened_features
from bayesvm.core.gaussian import Gaussian
from bayesvm.core.kernels.base import Kernel, Params
from bayesvm.core.likelihoods import ProperLikelihood
from bayesvm.core.top_k import envelope
from bayesvm.local_part import LoadedLocal, LocalPart
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
    draws : ndarray of shape (S, J, P) or None
        Draws of v from the posterior; None: q stands for it.
    centred : bool
        Whether the draws have mean zero over the functions: the part common
        to all classes, which nothing depends on, is left out.
    likelihood : ProperLikelihood or None
        Whose class probabilities to use; None: the calibrated softmax.
    pooled : bool
        Whether the classes of a row share their mean variance in class
        probabilities, so that the largest latent mean decides.
    local : LocalPart or None
        What rows close by add to the latents (section 10).
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
    draws: FloatArray | None = None
    centred: bool = False
    likelihood: ProperLikelihood | None = None
    pooled: bool = False
    local: LocalPart | None = None

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
            None if self.draws is None else tensor(self.draws),
            None if self.local is None else self.local.on(device),
        )

    @cached_property
    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Root and factors of a bound on the variances of all classes (eq. 6.10)."""
        bound = envelope(Gaussian(torch.as_tensor(self.m), torch.as_tensor(self.R)))
        return to_numpy(bound.root), to_numpy(bound.factor)


@dataclass(frozen=True)
class LoadedModel:
    """A model as tensors."""

    kernel: Kernel
    params: Params
    Z: Tensor
    Lz: Tensor
    q: Gaussian
    model: Model
    draws: Tensor | None = None
    local: LoadedLocal | None = None

    def calibrated(self, F: Tensor, s2: Tensor) -> tuple[Tensor, Tensor, float]:
        """Moments and temperature from which class probabilities are computed (eqs. 6.7, 6.9)."""
        model = self.model
        offset = torch.as_tensor(model.offset, dtype=F.dtype, device=F.device)
        s2 = pooled(s2) if model.pooled else s2
        return F + offset, model.spread * s2, model.temperature

    def probabilities_at(self, f: Tensor, mean: Tensor) -> Tensor:
        """Class probabilities at latents f (S, n, C) that are draws around a mean (n, C).

        The likelihood's own, or the softmax of calibrated latents.
        """
        model = self.model
        if model.likelihood is not None:
            return model.likelihood.conditional(f)
        offset = torch.as_tensor(model.offset, dtype=f.dtype, device=f.device)
        spread = mean + model.spread**0.5 * (f - mean)
        return torch.softmax(model.temperature * (spread + offset), -1)

    def rows(self, X: FloatArray) -> Tensor:
        """Standardised rows as a tensor."""
        return torch.as_tensor(self.model.scaler.transform(X)).to(self.Z)

    def features(self, rows: Tensor) -> Features:
        """Whitened features of standardised rows."""
        return whitened_features(self.kernel, self.params, self.Z, self.Lz, rows)


def pooled(s2: Tensor) -> Tensor:
    """The mean variance of each row's classes, for all of them."""
    return s2.mean(1, keepdim=True).expand_as(s2)


def to_numpy(t: Tensor) -> FloatArray:
    """A tensor as an array of its own."""
    a: FloatArray = t.detach().cpu().numpy().copy()
    return a
