"""A fitted model: plain arrays, frozen, enough to predict anywhere; and what estimators show of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core.calibration import Calibration
from bayesvm._core.features import Features, whitened_features
from bayesvm._core.gaussian import Gaussian
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.kernels.compose import slope_variances
from bayesvm._core.likelihoods import ProperLikelihood
from bayesvm._core.top_k import envelope
from bayesvm._fit.local import LoadedLocal, LocalPart
from bayesvm._fit.rows import Scaler

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
        q(v_j): means and factors of the precisions; one function per class, or one for
        two classes, of every member of a committee side by side.
    calibration : tuple of Calibration
        How the latents of each member become class probabilities, and its weight (eqs. 6.7, 6.9, 11.2).
    n_classes : int
    draws : ndarray of shape (S, J, P) or None
        Draws of v from the posterior; None: q is used.
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
    calibration: tuple[Calibration, ...]
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
    """A model as tensors on a device."""

    kernel: Kernel
    params: Params
    Z: Tensor
    Lz: Tensor
    q: Gaussian
    model: Model
    draws: Tensor | None = None
    local: LoadedLocal | None = None

    @property
    def members(self) -> list[int]:
        """The members of the committee that have weight; 0 where there is one posterior only."""
        return [i for i, calibration in enumerate(self.model.calibration) if calibration.weight > 0.0]

    def functions(self, members: list[int]) -> slice | list[int]:
        """Where the latent functions of some members are among all."""
        J = self.q.m.shape[0] // len(self.model.calibration)
        if members[-1] - members[0] == len(members) - 1:
            return slice(members[0] * J, (members[-1] + 1) * J)
        return [j for i in members for j in range(i * J, (i + 1) * J)]

    def q_of(self, members: list[int]) -> Gaussian:
        """The posterior of the latent functions of some members."""
        if len(members) == len(self.model.calibration):
            return self.q
        some = self.functions(members)
        return Gaussian(self.q.m[some], self.q.R[some])

    def calibrated(self, F: Tensor, s2: Tensor, member: int = 0) -> tuple[Tensor, Tensor, float]:
        """Moments and temperature from which class probabilities are computed (eqs. 6.7, 6.9)."""
        s2 = pooled(s2) if self.model.pooled else s2
        return self.model.calibration[member].of(F, s2)

    def probabilities_at(self, f: Tensor, mean: Tensor, member: int = 0) -> Tensor:
        """Class probabilities at latents f (S, n, C) that are draws around a mean (n, C) (eq. 8.38).

        The likelihood's own, or the softmax of calibrated latents.
        """
        if self.model.likelihood is not None:
            return self.model.likelihood.conditional(f)
        return self.model.calibration[member].at_draws(mean, f - mean)

    def rows(self, X: FloatArray) -> Tensor:
        """Standardised rows as a tensor."""
        return torch.as_tensor(self.model.scaler.transform(X)).to(self.Z)

    def features(self, rows: Tensor) -> Features:
        """Whitened features of standardised rows."""
        return whitened_features(self.kernel, self.params, self.Z, self.Lz, rows)


def pooled(s2: Tensor) -> Tensor:
    """The mean variance of each row's classes, for all of them."""
    return s2.mean(-1, keepdim=True).expand_as(s2)


def to_numpy(t: Tensor) -> FloatArray:
    """A tensor as an array of its own."""
    a: FloatArray = t.detach().cpu().numpy().copy()
    return a


@dataclass(frozen=True)
class FittedKernel:
    """A kernel with its learned parameters, callable on rows in the units of the data.

    Attributes
    ----------
    kernel : Kernel
    params : dict of str to ndarray
        Free parameters; names that start with ``log_`` are logarithms, in
        units of the columns that kernels see (eq. 1.7).
    scaler : Scaler
    numbers : callable or None
        From a user's rows with categories or gaps to numbers.
    """

    kernel: Kernel
    params: dict[str, FloatArray]
    scaler: Scaler
    numbers: Callable[[Any], FloatArray] | None = None

    def __call__(self, X: Any, Y: Any = None) -> FloatArray:
        """Covariances between the rows of X and of Y (or of X), shape (n, m)."""
        params = {k: torch.as_tensor(v) for k, v in self.params.items()}
        A = self._standardised(X)
        B = A if Y is None else self._standardised(Y)
        return to_numpy(self.kernel.cross({k: v.to(A) for k, v in params.items()}, A, B))

    def __repr__(self) -> str:
        return f"FittedKernel({self.kernel!r})"

    def _standardised(self, X: Any) -> Tensor:
        rows = np.asarray(X, dtype=np.float64) if self.numbers is None else self.numbers(X)
        return torch.as_tensor(self.scaler.transform(rows))


@dataclass(frozen=True)
class SiteArrays:
    """Gaussian sites of the distinct training rows, for one unit of weight.

    Attributes
    ----------
    classes : ndarray of shape (M, K) or None
        Latent functions the columns belong to; None: all of them, in order.
    precision, linear : ndarray of shape (M, K)
        Of a committee the functions of its members are side by side, the hinge's
        first: 2C columns, with two classes 2.
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
        If the kernel, or a part of it, is a user's own and has no ``relevance`` method.
    """
    kept = model.scaler.kept
    params = {k: torch.as_tensor(v) for k, v in model.params.items()}
    share = np.zeros(kept.shape[0])
    share[kept] = model.scaler.of_features(to_numpy(slope_variances(model.kernel, params, model.Z.shape[1])))
    total = share.sum()
    return share / total if total > 0 else share
