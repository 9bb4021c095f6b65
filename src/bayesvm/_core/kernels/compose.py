"""Sums, products and fixed multiples of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any, TypeVar

import torch
from torch import Tensor

from bayesvm._core.kernels.base import Kernel, Params

_Value = TypeVar("_Value")


def child(params: dict[str, _Value], i: int) -> dict[str, _Value]:
    """The parameters of part i of a sum or product."""
    prefix = f"{i}."
    return {k[len(prefix) :]: v for k, v in params.items() if k.startswith(prefix)}


@dataclass(frozen=True)
class _Composite:
    """Kernels joined entry by entry; the parameters of part i have the prefix ``i.``."""

    kernels: tuple[Kernel, ...]

    def init(self, X: Tensor) -> Params:
        return {f"{i}.{name}": value for i, k in enumerate(self.kernels) for name, value in k.init(X).items()}

    def _of_parts(self, method: str, params: Params, *args: Any) -> list[Tensor]:
        """What a method of every part returns."""
        return [getattr(k, method)(child(params, i), *args) for i, k in enumerate(self.kernels)]


@dataclass(frozen=True)
class Sum(_Composite):
    """The sum of independent functions, one per kernel."""

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return reduce(add, self._of_parts("cross", params, X, Z))

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return reduce(add, self._of_parts("diag", params, X))

    def relevance(self, params: Params, n_features: int) -> Tensor:
        return reduce(add, self._of_parts("relevance", params, n_features))


@dataclass(frozen=True)
class Product(_Composite):
    """The product of kernels: similar only where every factor says so."""

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return reduce(mul, self._of_parts("cross", params, X, Z))

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return reduce(mul, self._of_parts("diag", params, X))

    def relevance(self, params: Params, n_features: int) -> Tensor:
        # Variance of the slope of a product of independent factors at the mean row.
        origin = next(iter(params.values())).new_zeros(1, n_features)
        variances = torch.cat(self._of_parts("diag", params, origin))
        slopes = self._of_parts("relevance", params, n_features)
        return reduce(add, (s * variances.prod() / v for s, v in zip(slopes, variances, strict=True)))


@dataclass(frozen=True)
class Scaled:
    """A fixed multiple of a kernel, with the same parameters."""

    kernel: Kernel
    factor: float

    def init(self, X: Tensor) -> Params:
        return self.kernel.init(X)

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return self.factor * self.kernel.cross(params, X, Z)

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return self.factor * self.kernel.diag(params, X)

    def relevance(self, params: Params, n_features: int) -> Tensor:
        slopes: Tensor = self.kernel.relevance(params, n_features)  # type: ignore[attr-defined]
        return self.factor * slopes
