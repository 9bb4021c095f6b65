"""Sums and products of kernels, and the short names users may write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, mul
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from bayesvm._core.kernels.additive import AdditiveRBF, additive_on_rows
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.kernels.linear import Constant, Linear
from bayesvm._core.kernels.stationary import RBF, Matern32, Matern52

_Value = TypeVar("_Value")


def on_rows(kernel: Kernel, X: Tensor) -> Kernel:
    """The kernel prepared for many evaluations on the same rows; the same function otherwise."""
    if isinstance(kernel, AdditiveRBF):
        return additive_on_rows(kernel, X)
    if isinstance(kernel, (_Composite, Scaled)):
        return kernel.on_rows(X)
    return kernel


def child(params: dict[str, _Value], i: int) -> dict[str, _Value]:
    """The parameters of part i of a sum or product."""
    prefix = f"{i}."
    return {k[len(prefix) :]: v for k, v in params.items() if k.startswith(prefix)}


@dataclass(frozen=True)
class _Composite:
    kernels: tuple[Kernel, ...]

    def init(self, X: Tensor) -> Params:
        return {f"{i}.{name}": value for i, k in enumerate(self.kernels) for name, value in k.init(X).items()}

    def on_rows(self, X: Tensor) -> Self:
        return replace(self, kernels=tuple(on_rows(k, X) for k in self.kernels))

    def _each(self, method: str, params: Params, *args: Any) -> list[Tensor]:
        return [getattr(k, method)(child(params, i), *args) for i, k in enumerate(self.kernels)]


@dataclass(frozen=True)
class Sum(_Composite):
    """The sum of independent functions, one per kernel."""

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return reduce(add, self._each("cross", params, X, Z))

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return reduce(add, self._each("diag", params, X))

    def relevance(self, params: Params, n_features: int) -> Tensor:
        return reduce(add, self._each("relevance", params, n_features))


@dataclass(frozen=True)
class Product(_Composite):
    """The product of kernels: similar only where every factor says so."""

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return reduce(mul, self._each("cross", params, X, Z))

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return reduce(mul, self._each("diag", params, X))

    def relevance(self, params: Params, n_features: int) -> Tensor:
        # Variance of the slope of a product of independent factors at the mean row.
        origin = next(iter(params.values())).new_zeros(1, n_features)
        variances = torch.cat(self._each("diag", params, origin))
        slopes = self._each("relevance", params, n_features)
        return reduce(add, (s * variances.prod() / v for s, v in zip(slopes, variances, strict=True)))


@dataclass(frozen=True)
class Scaled:
    """A fixed multiple of a kernel, with the same parameters."""

    kernel: Kernel
    factor: float

    def init(self, X: Tensor) -> Params:
        return self.kernel.init(X)

    def on_rows(self, X: Tensor) -> Scaled:
        return replace(self, kernel=on_rows(self.kernel, X))

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return self.factor * self.kernel.cross(params, X, Z)

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return self.factor * self.kernel.diag(params, X)

    def relevance(self, params: Params, n_features: int) -> Tensor:
        slopes: Tensor = self.kernel.relevance(params, n_features)  # type: ignore[attr-defined]
        return self.factor * slopes


KERNEL_NAMES: dict[str, Callable[[bool], Kernel]] = {
    "rbf+additive": lambda ard: Sum((RBF(ard=ard), AdditiveRBF())),
    "rbf": lambda ard: RBF(ard=ard),
    "matern32": lambda ard: Matern32(ard=ard),
    "matern52": lambda ard: Matern52(ard=ard),
    "linear": lambda ard: Linear(ard=ard),
    "constant": lambda ard: Constant(),
    "additive": lambda ard: AdditiveRBF(),
}


def resolve_kernel(kernel: str | Kernel, ard: bool) -> Kernel:
    """A kernel object from a name, from names joined by + and *, or from a kernel object.

    Products bind tighter than sums: ``"linear + rbf*constant"``.
    """
    if not isinstance(kernel, str):
        if isinstance(kernel, Kernel) and not isinstance(kernel, type):
            return kernel
        raise TypeError(
            f"kernel must be a name or an object with methods init, cross and diag; got {kernel!r}"
        )
    if kernel in KERNEL_NAMES:
        return KERNEL_NAMES[kernel](ard)
    terms = []
    for term in kernel.split("+"):
        factors = [name.strip() for name in term.split("*")]
        for name in factors:
            if name not in KERNEL_NAMES:
                raise ValueError(
                    f"unknown kernel {name!r} in kernel={kernel!r}; valid names are "
                    f"{sorted(KERNEL_NAMES)}, and sums and products of them such as 'linear + rbf'"
                )
        parts = tuple(KERNEL_NAMES[name](ard) for name in factors)
        terms.append(parts[0] if len(parts) == 1 else Product(parts))
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))
