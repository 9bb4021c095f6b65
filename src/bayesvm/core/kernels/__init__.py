"""Covariance functions."""

from bayesvm.core.kernels.additive import AdditiveRBF
from bayesvm.core.kernels.base import Kernel, Params
from bayesvm.core.kernels.compose import KERNEL_NAMES, Product, Sum, resolve_kernel
from bayesvm.core.kernels.linear import Constant, Linear
from bayesvm.core.kernels.stationary import RBF, Matern32, Matern52

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
    "resolve_kernel",
]
