"""The additive kernel on rows with few values a column: a table, and the same function."""

import pytest
import torch

from bayesvm._core.kernels import AdditiveRBF, resolve_kernel
from bayesvm._core.kernels.additive import AdditiveOnRows
from bayesvm._core.kernels.compose import Scaled, on_rows


def _rows(n_levels, seed=0, n=60):
    generator = torch.Generator().manual_seed(seed)
    columns = []
    for levels in n_levels:
        values = torch.randn(levels, generator=generator, dtype=torch.float64)
        columns.append(values[torch.randint(levels, (n,), generator=generator)])
    Z = torch.randn(7, len(n_levels), generator=generator, dtype=torch.float64)
    return torch.stack(columns, 1), Z


def _params(kernel, X, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (
            value + 0.3 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
        ).requires_grad_()
        for name, value in kernel.init(X).items()
    }


@pytest.mark.parametrize(
    ("n_levels", "n_rest"), [((2, 3, 17), 0), ((2, 50, 3, 60, 1), 2), ((3, 3, 40), 1)], ids=str
)
def test_same_covariances_and_gradients_as_the_plain_kernel(n_levels, n_rest):
    X, Z = _rows(n_levels)
    Z.requires_grad_()
    plain = AdditiveRBF()
    prepared = on_rows(plain, X)
    assert isinstance(prepared, AdditiveOnRows)
    assert len(prepared.rest) == n_rest
    params = _params(plain, X)
    G = torch.randn(len(X), len(Z), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    leaves = [*params.values(), Z]
    expected = plain.cross(params, X, Z)
    found = prepared.cross(params, X, Z)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(prepared.diag(params, X), plain.diag(params, X))
    for a, b in zip(
        torch.autograd.grad((found * G).sum(), leaves),
        torch.autograd.grad((expected * G).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_other_rows_are_none_of_its_business():
    X, Z = _rows((4, 5))
    plain = AdditiveRBF()
    prepared, params = on_rows(plain, X), _params(plain, X)
    other = torch.randn(9, 2, dtype=torch.float64)
    assert torch.equal(prepared.cross(params, other, Z), plain.cross(params, other, Z))


def test_rows_with_many_values_change_nothing():
    X, _ = _rows((50, 50, 50))
    plain = AdditiveRBF()
    assert on_rows(plain, X) is plain


@pytest.mark.parametrize("name", ["rbf+additive", "additive*rbf + linear", "rbf"])
def test_inside_sums_products_and_multiples(name):
    X, Z = _rows((2, 3, 30))
    plain = Scaled(resolve_kernel(name, True), 2.0)
    params = _params(plain, X)
    torch.testing.assert_close(on_rows(plain, X).cross(params, X, Z), plain.cross(params, X, Z))
