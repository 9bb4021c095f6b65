"""Kernels to compose, and what is needed to write and to name one's own."""

from bayesvm._core.kernels import (
    KERNEL_NAMES,
    RBF,
    Anova,
    Constant,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    Params,
    Product,
    Scaled,
    Stationary,
    Sum,
    register_kernel,
    resolve_kernel,
)

__all__ = [
    "KERNEL_NAMES",
    "RBF",
    "Anova",
    "Constant",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "Params",
    "Product",
    "Scaled",
    "Stationary",
    "Sum",
    "register_kernel",
    "resolve_kernel",
]
