"""Covariance functions."""

from __future__ import annotations

from bayesvm._core.kernels.additive import AdditiveRBF
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.kernels.compose import KERNEL_NAMES, Product, Sum, resolve_kernel
from bayesvm._core.kernels.linear import Constant, Linear
from bayesvm._core.kernels.stationary import RBF, Matern32, Matern52

__all__ = [
    "AdditiveRBF",
    "Constant",
    "KERNEL_NAMES",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "Params",
    "Product",
    "RBF",
    "Sum",
    "resolve_kernel",
]
