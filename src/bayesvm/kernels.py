"""Kernels to compose and the protocol to write one's own."""

from bayesvm._core.kernels import (
    KERNEL_NAMES,
    RBF,
    AdditiveRBF,
    Constant,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    Params,
    Product,
    Sum,
)

__all__ = [
    "KERNEL_NAMES",
    "RBF",
    "AdditiveRBF",
    "Constant",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "Params",
    "Product",
    "Sum",
]
