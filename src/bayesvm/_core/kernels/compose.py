"""Sums and products of kernels, kernels by name, and fast paths."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from inspect import signature
from operator import add, mul
from typing import Any, TypeVar

import torch
from torch import Tensor

from bayesvm._compiled.kernels import Array, CompiledKernel, ProductOfTerms, SumOfTerms, TorchTerm
from bayesvm._core.kernels.anova import Anova
from bayesvm._core.kernels.base import CrossToInducing, Kernel, Params, PlainCross
from bayesvm._core.kernels.linear import Constant, Linear
from bayesvm._core.kernels.stationary import RBF, Matern32, Matern52
from bayesvm._registry import Registry

_Value = TypeVar("_Value")


def child(params: dict[str, _Value], i: int) -> dict[str, _Value]:
    """The parameters of part i of a sum or product."""
    prefix = f"{i}."
    return {k[len(prefix) :]: v for k, v in params.items() if k.startswith(prefix)}


def slope_variances(kernel: Kernel, params: Params, n_features: int) -> Tensor:
    """Prior variance of the slope along each feature, shape (D,).

    Raises
    ------
    AttributeError
        If the kernel, or a part of it, has no method ``relevance``, which is optional.
    """
    own = getattr(kernel, "relevance", None)
    if own is None:
        raise AttributeError(
            f"kernel {kernel!r} has no method relevance(params, n_features), so there is no "
            "feature_relevance_"
        )
    slopes: Tensor = own(params, n_features)
    return slopes


@dataclass(frozen=True)
class _Composite:
    """Kernels joined entry by entry; the parameters of part i have the prefix ``i.``."""

    kernels: tuple[Kernel, ...]

    def init(self, X: Tensor) -> Params:
        return {f"{i}.{name}": value for i, k in enumerate(self.kernels) for name, value in k.init(X).items()}

    def _of_parts(self, method: str, params: Params, *args: Any) -> list[Tensor]:
        """What a method of every part returns."""
        return [getattr(k, method)(child(params, i), *args) for i, k in enumerate(self.kernels)]

    def _slopes(self, params: Params, n_features: int) -> list[Tensor]:
        return [slope_variances(k, child(params, i), n_features) for i, k in enumerate(self.kernels)]


@dataclass(frozen=True)
class Sum(_Composite):
    """The sum of independent functions, one per kernel."""

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return reduce(add, self._of_parts("cross", params, X, Z))

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return reduce(add, self._of_parts("diag", params, X))

    def relevance(self, params: Params, n_features: int) -> Tensor:
        return reduce(add, self._slopes(params, n_features))


@dataclass(frozen=True)
class Product(_Composite):
    """The product of kernels: rows are similar only where all factors agree."""

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return reduce(mul, self._of_parts("cross", params, X, Z))

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return reduce(mul, self._of_parts("diag", params, X))

    def relevance(self, params: Params, n_features: int) -> Tensor:
        # Variance of the slope of a product of independent factors at the mean row.
        origin = next(iter(params.values())).new_zeros(1, n_features)
        variances = torch.cat(self._of_parts("diag", params, origin))
        slopes = self._slopes(params, n_features)
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
        return self.factor * slope_variances(self.kernel, params, n_features)


DEVIATION_SCALE = 0.1


def deviation_scales(kernel: Kernel, params: Params) -> dict[str, float]:
    """Cauchy scale of the deviations within each parameter (eq. 5.9), from the parts of the kernel."""
    if isinstance(kernel, (Sum, Product)):
        return {
            f"{i}.{name}": scale
            for i, k in enumerate(kernel.kernels)
            for name, scale in deviation_scales(k, child(params, i)).items()
        }
    if isinstance(kernel, Scaled):
        return deviation_scales(kernel.kernel, params)
    return dict.fromkeys(params, float(getattr(kernel, "deviation_scale", DEVIATION_SCALE)))


KERNEL_NAMES: Registry[type[Kernel]] = Registry(
    "kernel",
    {
        "anova": Anova,
        "constant": Constant,
        "linear": Linear,
        "matern32": Matern32,
        "matern52": Matern52,
        "rbf": RBF,
    },
)
"""Every kernel that has a name. A new one is its file and a line here; model files and files of
compiled predictors may then hold it too."""


def register_kernel(name: str, kernel: type[Kernel]) -> None:
    """Give a kernel of your own a name, for ``kernel="name"`` and sums and products of names.

    Model files that contain it can be loaded wherever it is registered.

    Parameters
    ----------
    name : str
        Without ``+`` and ``*``, which join names; not that of a built-in kernel.
    kernel : type
        A class that can be called without arguments. If it takes ``ard``, it
        is given the ``ard`` of the estimator.
    """
    if not name.strip() or set(name) & set("+*"):
        raise ValueError(f"{name!r} cannot name a kernel: + and * join the names of kernels")
    if not (isinstance(kernel, type) and isinstance(kernel(), Kernel)):
        raise TypeError(f"kernel must be a class with methods init, cross and diag; got {kernel!r}")
    KERNEL_NAMES.register(name.strip(), kernel)


_NUMBER = re.compile(r"\d+\.?\d*|\.\d+")


def resolve_kernel(kernel: str | Kernel, ard: bool) -> Kernel:
    """A kernel object from a name, from names joined by + and *, or from a kernel object.

    Products bind tighter than sums: ``"linear + rbf*constant"``. A number is a factor on the
    starting variance: ``"0.1*rbf + anova"``.
    """
    if not isinstance(kernel, str):
        if isinstance(kernel, Kernel) and not isinstance(kernel, type):
            return kernel
        raise TypeError(
            f"kernel must be a name or an object with methods init, cross and diag; got {kernel!r}"
        )

    def named(name: str) -> Kernel:
        if name not in KERNEL_NAMES:
            raise ValueError(
                f"unknown kernel {name!r} in kernel={kernel!r}; valid names are "
                f"{sorted(KERNEL_NAMES)}, and sums and products of them such as 'linear + rbf'"
            )
        made = KERNEL_NAMES[name]
        options = {"ard": ard} if "ard" in signature(made).parameters else {}
        return made(**options)

    def product(term: str) -> Kernel:
        parts = [part.strip() for part in term.split("*")]
        names = [part for part in parts if not _NUMBER.fullmatch(part)] or parts
        factors = tuple(named(name) for name in names)
        whole = factors[0] if len(factors) == 1 else Product(factors)
        if len(names) == len(parts):
            return whole
        factor = math.prod(float(part) for part in parts if part not in names)
        if not factor:
            raise ValueError(f"a starting variance of zero in kernel={kernel!r}: leave that part out")
        return Scaled(whole, factor)

    terms = tuple(product(term) for term in kernel.split("+"))
    return terms[0] if len(terms) == 1 else Sum(terms)


# Fast paths: each function below calls the optional method of a kernel (see ``Kernel``), recurses into
# sums, products and multiples, and otherwise evaluates the kernel as it is.


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
