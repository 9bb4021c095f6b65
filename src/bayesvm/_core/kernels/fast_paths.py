"""The same covariances, faster: for rows or inducing points that stay, and compiled to numpy.

Each function asks a kernel for its own way (see ``Kernel``), takes sums,
products and multiples apart, and otherwise evaluates the kernel as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, mul
from typing import Any

from torch import Tensor

from bayesvm._compiled.kernels import Array, CompiledKernel, ProductOfTerms, SumOfTerms, TorchTerm
from bayesvm._core.kernels.base import CrossToInducing, Kernel, Params, PlainCross
from bayesvm._core.kernels.compose import Product, Scaled, Sum, child


def _own_method(kernel: Kernel, name: str) -> Callable[..., Any] | None:
    """An optional method that the kernel's own class defines, not one that it inherits."""
    return getattr(kernel, name) if name in vars(type(kernel)) else None


def on_rows(kernel: Kernel, X: Tensor) -> Kernel:
    """The kernel prepared for many evaluations on the same rows; the same function otherwise."""
    if isinstance(kernel, (Sum, Product)):
        return replace(kernel, kernels=tuple(on_rows(k, X) for k in kernel.kernels))
    if isinstance(kernel, Scaled):
        return replace(kernel, kernel=on_rows(kernel.kernel, X))
    prepare = _own_method(kernel, "on_rows")
    prepared: Kernel = kernel if prepare is None else prepare(X)
    return prepared


def cross_to_inducing(kernel: Kernel, params: Params, Z: Tensor, X: Tensor) -> CrossToInducing:
    """``kernel.cross(params, ., Z)`` for many rows like X, to rounding."""
    if isinstance(kernel, (Sum, Product)):
        parts = (cross_to_inducing(k, child(params, i), Z, X) for i, k in enumerate(kernel.kernels))
        return _Joined(add if isinstance(kernel, Sum) else mul, tuple(parts))
    if isinstance(kernel, Scaled):
        return _Multiple(cross_to_inducing(kernel.kernel, params, Z, X), kernel.factor)
    prepare = _own_method(kernel, "to_inducing")
    prepared: CrossToInducing = PlainCross(kernel, params, Z) if prepare is None else prepare(params, Z, X)
    return prepared


@dataclass(frozen=True)
class _Joined:
    join: Callable[[Tensor, Tensor], Tensor]
    parts: tuple[CrossToInducing, ...]

    def __call__(self, X: Tensor) -> Tensor:
        # Not in place: a kernel may return a view.
        return reduce(self.join, (part(X) for part in self.parts))


@dataclass(frozen=True)
class _Multiple:
    part: CrossToInducing
    factor: float

    def __call__(self, X: Tensor) -> Tensor:
        return self.factor * self.part(X)


def compiled(
    kernel: Kernel, params: dict[str, Array], Z: Array, dtype: str, factor: float = 1.0
) -> CompiledKernel:
    """A multiple of the kernel in numpy, with fixed parameters and inducing points.

    A kernel without a compiled form of its own is evaluated through torch.

    Parameters
    ----------
    params, Z : dict of str to ndarray, ndarray of shape (P, D)
        In double precision.
    dtype : str
        Precision of the covariances.
    """
    if isinstance(kernel, Scaled):
        return compiled(kernel.kernel, params, Z, dtype, factor * kernel.factor)
    if isinstance(kernel, (Sum, Product)):
        is_sum = isinstance(kernel, Sum)
        # A factor goes to every term of a sum and to one of a product.
        terms = tuple(
            compiled(k, child(params, i), Z, dtype, factor if is_sum or i == 0 else 1.0)
            for i, k in enumerate(kernel.kernels)
        )
        return SumOfTerms(terms) if is_sum else ProductOfTerms(terms)
    compile_ = _own_method(kernel, "compiled")
    if compile_ is None:
        return TorchTerm(kernel, params, Z, factor, dtype)
    term: CompiledKernel = compile_(params, Z, factor, dtype)
    return term
