"""Covariance functions, and the names by which users ask for them."""

from __future__ import annotations

from inspect import signature

from bayesvm._core.kernels.additive import AdditiveRBF
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.kernels.compose import Product, Scaled, Sum
from bayesvm._core.kernels.linear import Constant, IsotropicLinear, Linear
from bayesvm._core.kernels.stationary import RBF, Matern32, Matern52, Stationary

__all__ = [
    "AdditiveRBF",
    "Constant",
    "IsotropicLinear",
    "KERNEL_NAMES",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "Params",
    "Product",
    "RBF",
    "Scaled",
    "Stationary",
    "Sum",
    "register_kernel",
    "resolve_kernel",
]

KERNEL_NAMES: dict[str, type[Kernel]] = {
    "additive": AdditiveRBF,
    "constant": Constant,
    "linear": Linear,
    "matern32": Matern32,
    "matern52": Matern52,
    "rbf": RBF,
}
"""Every kernel that has a name. A new one is its file and a line here; files of models and of
compiled predictors may then hold it too."""


def register_kernel(name: str, kernel: type[Kernel]) -> None:
    """Give a kernel of your own a name, for ``kernel="name"`` and sums and products of names.

    Model files that contain it can be loaded wherever it is registered.

    Parameters
    ----------
    name : str
        Without ``+`` and ``*``, which join names.
    kernel : type
        A class that can be called without arguments. If it takes ``ard``, it
        is given the ``ard`` of the estimator.
    """
    if not name.strip() or set(name) & set("+*"):
        raise ValueError(f"a kernel cannot be called {name!r}: + and * join names of kernels")
    if not (isinstance(kernel, type) and isinstance(kernel(), Kernel)):
        raise TypeError(f"kernel must be a class with methods init, cross and diag; got {kernel!r}")
    KERNEL_NAMES[name.strip()] = kernel


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
        factors = tuple(named(name.strip()) for name in term.split("*"))
        return factors[0] if len(factors) == 1 else Product(factors)

    terms = tuple(product(term) for term in kernel.split("+"))
    return terms[0] if len(terms) == 1 else Sum(terms)
