"""The kernel protocol: a stateless description plus a dictionary of free parameters."""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

from torch import Tensor

Params: TypeAlias = dict[str, Tensor]
"""Named unconstrained parameters; positive quantities are stored as logarithms."""


@runtime_checkable
class Kernel(Protocol):
    """What an object must do to serve as ``kernel=``.

    Inputs are standardised columns. Parameters are unconstrained tensors, so
    that any optimiser may move them; a kernel takes exponentials itself.
    Optionally, ``relevance(params, n_features)`` returns a non-negative
    Tensor of shape (D,): the prior variance of the slope along each feature.
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
