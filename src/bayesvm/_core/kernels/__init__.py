"""Covariance functions."""

from __future__ import annotations

from bayesvm._core.kernels.anova import Anova
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.kernels.compose import (
    KERNEL_NAMES,
    Product,
    Scaled,
    Sum,
    register_kernel,
    resolve_kernel,
)
from bayesvm._core.kernels.linear import Constant, IsotropicLinear, Linear
from bayesvm._core.kernels.stationary import RBF, Matern32, Matern52, Stationary

__all__ = [
    "Anova",
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
