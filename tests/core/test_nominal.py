"""Kernels on blocks of indicators are equal-or-not kernels (eqs. 12.1, 12.2)."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from bayesvm._compiled.columns import one_hot
from bayesvm._core.kernels import Anova, Linear, Matern52, resolve_kernel
from bayesvm._core.kernels.compose import compiled, cross_to_inducing, deviation_scales, slope_variances
from bayesvm._core.kernels.nominal import AnovaOnBlocks, Blocks, SharedScales, on_blocks

SIZES, HEIGHT = np.array([3, 2]), np.array([1.2, 0.8])
BLOCKS = Blocks(2, tuple((SIZES + 1).tolist()), tuple(np.square(HEIGHT).tolist()))


def rows(n, seed=0):
    """Two numbers, then codes of two nominal columns, unknown ones among them; and the same in blocks."""
    rng = np.random.default_rng(seed)
    numbers, codes = rng.normal(size=(n, 2)), np.stack([rng.integers(0, k + 1, n) for k in SIZES], 1)
    return numbers, codes, torch.tensor(np.concatenate([numbers, one_hot(codes, SIZES, HEIGHT)], 1))


def params_of(kernel, X, seed=1):
    torch.manual_seed(seed)
    return {name: v + 0.5 * torch.randn_like(v) for name, v in kernel.init(X).items()}


def test_rbf_is_one_factor_for_a_column_that_differs():
    (x, a, X), (z, b, Z) = rows(30), rows(20, 1)
    kernel = on_blocks(resolve_kernel("rbf", True), BLOCKS)
    params = params_of(kernel, X)
    scale = params["log_length_scale"].exp().numpy()
    assert scale.shape == (4,)
    r2 = (((x[:, None] - z) / scale[:2]) ** 2).sum(2)
    differs = 2 * ((a[:, None] != b) * HEIGHT**2 / scale[2:] ** 2).sum(2)
    expected = math.exp(params["log_variance"]) * np.exp(-0.5 * (r2 + differs))
    assert_allclose(kernel.cross(params, X, Z), expected, rtol=1e-9)


def test_anova_has_one_factor_for_each_column():
    (x, a, X), (z, b, Z) = rows(30), rows(20, 1)
    kernel = on_blocks(resolve_kernel("anova", True), BLOCKS)
    params = params_of(kernel, X)
    share = torch.sigmoid(params["logits"]).numpy()
    scale = params["log_length_scale"].exp().numpy()
    assert share.shape == scale.shape == (4,)
    apart = np.concatenate([np.abs(x[:, None] - z), math.sqrt(2) * HEIGHT * (a[:, None] != b)], 2)
    u = math.sqrt(3) * apart / scale
    factors = 1 - share + share * (1 + u) * np.exp(-u)
    expected = math.exp(params["log_variance"]) * factors.prod(2)
    assert_allclose(kernel.cross(params, X, Z), expected, rtol=1e-9)
    assert_allclose(kernel.diag(params, X), np.diag(kernel.cross(params, X, X)), rtol=1e-12)
    assert slope_variances(kernel, params, X.shape[1]).shape == (X.shape[1],)


@pytest.mark.parametrize("name", ["rbf+anova", "matern52*constant + linear", "anova"])
def test_every_form_is_the_same_function(name):
    X, Z = rows(40)[2], rows(15, 1)[2]
    Z[:5] = 0.5 * (Z[:5] + Z[5:10])  # means of rows, as inducing points are
    kernel = on_blocks(resolve_kernel(name, True), BLOCKS)
    params = params_of(kernel, X)
    K = kernel.cross(params, X, Z)
    assert_allclose(cross_to_inducing(kernel, params, Z, X)(X), K, rtol=1e-12)
    arrays = {key: value.numpy() for key, value in params.items()}
    term = compiled(kernel, arrays, Z.numpy(), "float64", 2.0)
    assert_allclose(term.cross(X.numpy()), 2.0 * K, rtol=1e-9)
    assert_allclose(term.diag(X.numpy()) * np.ones(40), 2.0 * kernel.diag(params, X), rtol=1e-9)
    assert torch.linalg.eigvalsh(kernel.cross(params, Z, Z)).min() > -1e-10


def test_derivatives():
    X, Z = (part[2][:6].requires_grad_() for part in (rows(6), rows(6, 1)))
    kernel = on_blocks(resolve_kernel("rbf+anova", True), BLOCKS)
    params = {name: value.requires_grad_() for name, value in params_of(kernel, X.detach()).items()}
    names = list(params)
    assert torch.autograd.gradcheck(
        lambda X, Z, *values: kernel.cross(dict(zip(names, values, strict=True)), X, Z),
        (X, Z, *params.values()),
    )


def test_a_column_is_one_parameter_of_the_prior():
    kernel = on_blocks(resolve_kernel("rbf+anova", True), BLOCKS)
    params = kernel.init(rows(10)[2])
    sizes = {"0.log_variance": 1, "0.log_length_scale": 4}
    sizes |= {"1.log_variance": 1, "1.logits": 4, "1.log_length_scale": 4}
    assert {name: value.numel() for name, value in params.items()} == sizes
    plain = resolve_kernel("rbf+anova", True)
    assert deviation_scales(kernel, params) == deviation_scales(plain, plain.init(rows(10)[2]))


def test_kernels_without_scales_of_columns_stay_as_they_are():
    shared = SharedScales(Matern52(ard=False), BLOCKS)
    X = rows(10)[2]
    params = shared.init(X)
    assert_allclose(shared.cross(params, X, X), shared.kernel.cross(params, X, X))
    assert isinstance(on_blocks(Anova(), BLOCKS), AnovaOnBlocks)
    assert isinstance(on_blocks(Linear(), BLOCKS), SharedScales)
