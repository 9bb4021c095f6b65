"""The kernel protocol: required and optional methods of a covariance function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from torch import Tensor

Params: TypeAlias = dict[str, Tensor]
"""Named unconstrained parameters; positive quantities are stored as logarithms."""


@runtime_checkable
class Kernel(Protocol):
    """The protocol of ``kernel=``.

    Inputs are standardised columns. Parameters are unconstrained tensors, so
    that any optimiser may move them; a kernel takes exponentials itself.

    Four further methods and a number are optional. Sums and products use those of their
    parts, and what is missing is computed from the three below.

    - ``relevance(params, n_features)``: the prior variance of the slope along
      each feature, a Tensor of shape (D,), for ``feature_relevance_``.
    - ``on_rows(X)``: a kernel that evaluates faster on these fixed rows, under
      changing parameters.
    - ``to_inducing(params, Z, X)``: a function from rows like X to their
      covariances with fixed inducing points; it must survive pickling.
    - ``compiled(params, Z, factor, dtype)``: a multiple of the kernel in numpy
      alone, for ``compile_predictor`` (see ``bayesvm._compiled.kernels``);
      ``params`` and Z are arrays in double precision.

    - ``deviation_scale``: how far single entries of a parameter are expected to
      deviate from the others while the kernel is learned (eq. 5.9), else 0.1.

    The last three methods are fast paths for the same numbers. They hold for the
    class that defines them and not for its subclasses, which may have changed
    the covariance.
    """

    def init(self, X: Tensor) -> Params:
        """Starting parameters for standardised inputs like X, shape (N, D)."""
        ...

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        """Covariances between the rows of X and of Z, shape (N, P)."""
        ...

    def diag(self, params: Params, X: Tensor) -> Tensor:
        """Variances of the rows of X, shape (N,)."""
        ...


class CrossToInducing(Protocol):
    """Covariances with fixed inducing points; can be pickled."""

    def __call__(self, X: Tensor) -> Tensor:
        """Covariances of the rows with the inducing points, shape (N, P)."""
        ...


@dataclass(frozen=True)
class PlainCross:
    """A kernel with its parameters and inducing points."""

    kernel: Kernel
    params: Params
    Z: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        return self.kernel.cross(self.params, X, self.Z)
