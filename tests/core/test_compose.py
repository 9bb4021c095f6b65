"""Names of kernels, and sums and products of them."""

import pytest
import torch

from bayesvm._core.kernels import (
    KERNEL_NAMES,
    RBF,
    AdditiveRBF,
    Constant,
    Linear,
    Matern32,
    Product,
    Sum,
    resolve_kernel,
)
from tests.problems import normal


@pytest.mark.parametrize("name", sorted(KERNEL_NAMES))
@pytest.mark.parametrize("ard", [True, False])
def test_every_name_resolves(name, ard):
    kernel = resolve_kernel(name, ard)
    X = normal(4, 2, seed=0)
    assert kernel.cross(kernel.init(X), X, X).shape == (4, 4)


def test_products_bind_tighter_than_sums():
    assert resolve_kernel("linear + rbf*constant", True) == Sum((Linear(), Product((RBF(), Constant()))))
    assert resolve_kernel(" matern32 * linear ", False) == Product((Matern32(ard=False), Linear(ard=False)))
    assert resolve_kernel("rbf+additive", True) == Sum((RBF(), AdditiveRBF()))


def test_sums_and_products_are_those_of_their_parts():
    X, Z = normal(5, 2, seed=1), normal(4, 2, seed=2)
    for composite, join in ((Sum, torch.add), (Product, torch.mul)):
        kernel = composite((RBF(), Linear()))
        a, b = RBF().init(X), Linear().init(X)
        params = kernel.init(X)
        assert set(params) == {f"0.{k}" for k in a} | {f"1.{k}" for k in b}
        expected = join(RBF().cross(a, X, Z), Linear().cross(b, X, Z))
        torch.testing.assert_close(kernel.cross(params, X, Z), expected)


def test_composites_of_more_than_ten_parts_keep_their_parameters_apart():
    X = normal(3, 2, seed=3)
    kernel = Sum(tuple(Constant(variance=float(i + 1)) for i in range(12)))
    assert float(kernel.diag(kernel.init(X), X)[0]) == pytest.approx(78.0)


def test_composites_nest():
    X = normal(3, 2, seed=4)
    kernel = Product((Sum((Constant(2.0), Constant(3.0))), Constant(4.0)))
    assert float(kernel.diag(kernel.init(X), X)[0]) == pytest.approx(20.0)


@pytest.mark.parametrize("name", ["rfb", "rbf + ", "rbf ** linear", "", "rbf, linear"])
def test_unknown_names_are_refused_with_the_valid_ones(name):
    with pytest.raises(ValueError, match=r"valid names are .*matern52"):
        resolve_kernel(name, True)


@pytest.mark.parametrize("thing", [3, None, object(), RBF])
def test_what_is_not_a_kernel_is_refused(thing):
    with pytest.raises(TypeError, match="init, cross and diag"):
        resolve_kernel(thing, True)


def test_kernel_objects_are_taken_as_they_are():
    kernel = Matern32(variance=3.0)
    assert resolve_kernel(kernel, False) is kernel
