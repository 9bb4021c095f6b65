"""One battery that every kernel must pass, names of kernels, and sums and products of them."""

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from bayesvm._compiled.kernels import PROFILES, DistanceTerm, TorchTerm
from bayesvm._core.kernels import (
    KERNEL_NAMES,
    RBF,
    Anova,
    Constant,
    IsotropicLinear,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    Product,
    Scaled,
    Stationary,
    Sum,
    register_kernel,
    resolve_kernel,
)
from bayesvm._core.kernels.compose import compiled, cross_to_inducing, on_rows
from tests.problems import generator, normal

D = 3


def _rbf(p, x, z):
    r2 = (((x - z) / p["log_length_scale"].exp()) ** 2).sum()
    return p["log_variance"].exp() * torch.exp(-0.5 * r2)


def _matern(nu_root, polynomial):
    def value(p, x, z):
        r = nu_root * (((x - z) / p["log_length_scale"].exp()) ** 2).sum().sqrt()
        return p["log_variance"].exp() * polynomial(r) * torch.exp(-r)

    return value


def _anova(p, x, z):
    share = torch.sigmoid(p["logits"])
    u = math.sqrt(3) * (x - z).abs() / p["log_length_scale"].exp()
    return p["log_variance"].exp() * (1 - share + share * (1 + u) * torch.exp(-u)).prod()


def _linear(p, x, z):
    return p["log_bias"].exp() + (p["log_slope"].exp() * x * z).sum()


def _isotropic(p, x, z):
    return p["log_variance"].exp() * ((x * z).sum() + 1.0)


def _constant(p, x, z):
    return p["log_variance"].exp()


_matern32 = _matern(math.sqrt(3.0), lambda r: 1 + r)
_matern52 = _matern(math.sqrt(5.0), lambda r: 1 + r + r * r / 3)


def _part(p, i):
    return {k.split(".", 1)[1]: v for k, v in p.items() if k.startswith(f"{i}.")}


@dataclass(frozen=True)
class RationalQuadratic(Stationary):
    """A user's kernel: a profile with a parameter of its own, and one in numpy."""

    def init(self, X):
        return {**super().init(X), "log_alpha": X.new_tensor(0.5)}

    def profile(self, r2, params):
        alpha = params["log_alpha"].exp()
        return (1.0 + r2 / (2.0 * alpha)) ** -alpha

    def compiled(self, params, Z, factor, dtype):
        return DistanceTerm.of("rational_quadratic", params, Z, factor, dtype)


def _rational_quadratic_profile(half, term):
    alpha = np.exp(term.params["log_alpha"])
    k = np.exp(term.log_variance) * (1.0 - np.minimum(half, 0.0) / alpha) ** -alpha
    return k.astype(term.dtype, copy=False)


PROFILES["rational_quadratic"] = _rational_quadratic_profile


def _rational_quadratic(p, x, z):
    r2 = (((x - z) / p["log_length_scale"].exp()) ** 2).sum()
    alpha = p["log_alpha"].exp()
    return p["log_variance"].exp() * (1 + r2 / (2 * alpha)) ** -alpha


# Every kernel with the formula of one entry, written out.
CASES = {
    "a profile of one's own": (RationalQuadratic(), _rational_quadratic),
    "rbf": (RBF(), _rbf),
    "rbf, one length scale": (RBF(ard=False), _rbf),
    "matern32": (Matern32(), _matern32),
    "matern52": (Matern52(), _matern52),
    "matern52, one length scale": (Matern52(ard=False), _matern52),
    "linear": (Linear(), _linear),
    "linear, one slope": (Linear(ard=False), _linear),
    "linear, one prior variance": (IsotropicLinear(), _isotropic),
    "linear, no intercept": (
        IsotropicLinear(intercept=False),
        lambda p, x, z: p["log_variance"].exp() * (x * z).sum(),
    ),
    "constant": (Constant(variance=0.7), _constant),
    "anova": (Anova(), _anova),
    "rbf+anova": (
        resolve_kernel("rbf+anova", True),
        lambda p, x, z: _rbf(_part(p, 0), x, z) + _anova(_part(p, 1), x, z),
    ),
    "sum": (
        Sum((Matern32(), Linear())),
        lambda p, x, z: _matern32(_part(p, 0), x, z) + _linear(_part(p, 1), x, z),
    ),
    "fixed multiple": (Scaled(Matern52(), 2.0), lambda p, x, z: 2.0 * _matern52(p, x, z)),
    "product": (
        Product((RBF(), Linear())),
        lambda p, x, z: _rbf(_part(p, 0), x, z) * _linear(_part(p, 1), x, z),
    ),
}

battery = pytest.mark.parametrize(("kernel", "formula"), CASES.values(), ids=CASES.keys())


def _random_params(kernel: Kernel, X: torch.Tensor, seed: int) -> dict[str, torch.Tensor]:
    g = generator(seed)
    return {k: v + 0.3 * torch.randn(v.shape, generator=g, dtype=v.dtype) for k, v in kernel.init(X).items()}


def test_every_named_kernel_is_in_the_battery():
    assert set(KERNEL_NAMES) <= set(CASES)


@battery
def test_cross_is_the_formula_entry_by_entry(kernel, formula):
    X, Z = normal(7, D, seed=0), normal(5, D, seed=1)
    params = _random_params(kernel, X, 2)
    K = kernel.cross(params, X, Z)
    brute = torch.stack([torch.stack([formula(params, x, z) for z in Z]) for x in X])
    torch.testing.assert_close(K.expand(7, 5), brute, rtol=1e-10, atol=1e-10)


@battery
def test_symmetric_and_positive_semi_definite(kernel, formula):
    X = normal(30, D, seed=3)
    K = kernel.cross(_random_params(kernel, X, 4), X, X)
    torch.testing.assert_close(K, K.mT, rtol=1e-12, atol=1e-12)
    eigenvalues = torch.linalg.eigvalsh(0.5 * (K + K.mT))
    assert float(eigenvalues.min()) > -1e-10 * float(eigenvalues.max())


@battery
def test_diag_is_the_diagonal_of_cross(kernel, formula):
    X = normal(12, D, seed=5)
    params = _random_params(kernel, X, 6)
    K = kernel.cross(params, X, X)
    torch.testing.assert_close(kernel.diag(params, X), K.diagonal(), rtol=1e-7, atol=1e-7)


@battery
def test_gradients_of_all_parameters(kernel, formula):
    X, Z = normal(4, D, seed=7), normal(3, D, seed=8)
    params = _random_params(kernel, X, 9)
    names = list(params)
    values = [params[k].clone().requires_grad_() for k in names]

    def both(*args):
        theta = dict(zip(names, args, strict=True))
        return kernel.cross(theta, X, Z) * 1.0, kernel.diag(theta, X) * 1.0

    assert torch.autograd.gradcheck(both, values)


@battery
def test_gradients_are_finite_where_rows_coincide(kernel, formula):
    X = normal(4, D, seed=10)
    params = {k: v.requires_grad_() for k, v in _random_params(kernel, X, 11).items()}
    Z = X.clone().requires_grad_()
    kernel.cross(params, Z, Z).sum().backward()
    for tensor in (*params.values(), *([Z] if Z.grad is not None else [])):
        assert bool(torch.isfinite(tensor.grad).all())


@battery
def test_relevance_is_the_prior_variance_of_the_slope_at_the_mean_row(kernel, formula):
    X = normal(6, D, seed=12)
    params = _random_params(kernel, X, 13)
    relevance = kernel.relevance(params, D)
    assert relevance.shape == (D,)
    assert bool((relevance >= 0).all())
    # Var f'(0) along feature d, from the covariance of a central difference.
    h = 1e-4
    for d in range(D):
        e = torch.zeros(1, D, dtype=torch.float64)
        e[0, d] = h
        pair = torch.cat([e, -e])
        K = torch.stack([torch.stack([formula(params, x, z) for z in pair]) for x in pair])
        slope = (K[0, 0] + K[1, 1] - 2 * K[0, 1]) / (2 * h) ** 2
        assert float(relevance[d]) == pytest.approx(float(slope), rel=2e-3, abs=1e-6)


@battery
def test_starting_parameters_follow_type_and_width_of_the_rows(kernel, formula):
    for width in (1, 4):
        X = normal(5, width, seed=14).float()
        params = kernel.init(X)
        assert all(v.dtype == torch.float32 for v in params.values())
        assert kernel.cross(params, X, X).dtype == torch.float32
    assert isinstance(kernel, Kernel)


def _rows(n: int, seed: int) -> torch.Tensor:
    """Columns of many, four and two values."""
    X, g = normal(n, D, seed=seed), generator(seed)
    for d, size in ((1, 4), (2, 2)):
        X[:, d] = normal(size, seed=100 + d)[torch.randint(size, (n,), generator=g)]
    return X


@battery
def test_prepared_for_rows_it_has_the_same_covariances_and_gradients(kernel, formula):
    X, Z = _rows(60, 20), normal(7, D, seed=21).requires_grad_()
    params = {k: v.requires_grad_() for k, v in _random_params(kernel, X, 22).items()}
    prepared = on_rows(kernel, X)
    weight = normal(60, 7, seed=23)
    found, expected = (
        (K, torch.autograd.grad((weight * K).sum(), [*params.values(), Z], allow_unused=True))
        for K in (k.cross(params, X, Z) for k in (prepared, kernel))
    )
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(prepared.diag(params, X), kernel.diag(params, X))
    other = normal(5, D, seed=24)
    torch.testing.assert_close(prepared.cross(params, other, Z), kernel.cross(params, other, Z))


@battery
def test_prepared_for_inducing_points_it_has_the_same_covariances(kernel, formula):
    X, Z = _rows(800, 25), normal(7, D, seed=26)
    params = _random_params(kernel, X, 27)
    cross = cross_to_inducing(kernel, params, Z, X)
    for new in (_rows(300, 28), normal(20, D, seed=29)):
        torch.testing.assert_close(cross(new), kernel.cross(params, new, Z), rtol=1e-13, atol=1e-14)
        assert torch.equal(pickle.loads(pickle.dumps(cross))(new), cross(new))


def _needs_torch(kernel) -> bool:
    return isinstance(kernel, TorchTerm) or any(map(_needs_torch, getattr(kernel, "terms", ())))


@battery
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
def test_compiled_it_has_the_same_covariances_without_torch(kernel, formula, dtype, tolerance):
    X, Z = normal(30, D, seed=30), normal(7, D, seed=31)
    params = _random_params(kernel, X, 32)
    arrays = {name: value.numpy() for name, value in params.items()}
    fast = compiled(kernel, arrays, Z.numpy(), dtype, 1.7)
    assert not _needs_torch(fast)
    K = torch.as_tensor(fast.cross(X.numpy())).double()
    torch.testing.assert_close(K, 1.7 * kernel.cross(params, X, Z), rtol=tolerance, atol=tolerance)
    diag = torch.as_tensor(fast.diag(X.numpy())).expand(30)
    torch.testing.assert_close(diag, 1.7 * kernel.diag(params, X), rtol=1e-12, atol=1e-12)


def test_a_subclass_does_not_inherit_the_fast_paths_of_another_covariance():
    class Halved(Anova):
        def cross(self, params, X, Z):
            return 0.5 * super().cross(params, X, Z)

    kernel, X = Halved(), _rows(60, 33)
    params, Z = kernel.init(X), X[:4]
    expected = kernel.cross(params, X, Z)
    torch.testing.assert_close(on_rows(kernel, X).cross(params, X, Z), expected)
    torch.testing.assert_close(cross_to_inducing(kernel, params, Z, X)(X), expected)
    arrays = {name: value.numpy() for name, value in params.items()}
    fast = compiled(kernel, arrays, Z.numpy(), "float64")
    torch.testing.assert_close(torch.as_tensor(fast.cross(X.numpy())), expected)


@pytest.mark.parametrize("kernel", [RBF(), Matern32(), Matern52()], ids=lambda k: type(k).__name__)
def test_single_precision_gradients_where_inducing_points_are_rows(kernel):
    """At zero distance a root's derivative is infinite; its noise must not reach the length scales."""
    X = torch.randn(300, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(300, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    gradients = []
    for dtype in (torch.float64, torch.float32):
        params = {k: v.to(dtype).requires_grad_() for k, v in kernel.init(X).items()}
        k = kernel.cross(params, X.to(dtype), X[:40].to(dtype))
        (k * weight.to(dtype)).sum().backward()
        gradients.append(params["log_length_scale"].grad.double())
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0.0, atol=1e-3)


@pytest.mark.parametrize("name", sorted(KERNEL_NAMES))
@pytest.mark.parametrize("ard", [True, False])
def test_every_name_resolves(name, ard):
    kernel = resolve_kernel(name, ard)
    X = normal(4, 2, seed=0)
    assert kernel.cross(kernel.init(X), X, X).shape == (4, 4)


def test_products_bind_tighter_than_sums():
    assert resolve_kernel("linear + rbf*constant", True) == Sum((Linear(), Product((RBF(), Constant()))))
    assert resolve_kernel(" matern32 * linear ", False) == Product((Matern32(ard=False), Linear(ard=False)))
    assert resolve_kernel("rbf+anova", True) == Sum((RBF(), Anova()))


def test_numbers_are_factors_on_the_starting_variance():
    assert resolve_kernel("0.1*rbf + anova", True) == Sum((Scaled(RBF(), 0.1), Anova()))
    assert resolve_kernel("2 * linear*rbf * .5", True) == Scaled(Product((Linear(), RBF())), 1.0)
    for wrong in ("3", "rbf + 2", "-1*rbf", "1e3*rbf", "rbf*"):
        with pytest.raises(ValueError, match="unknown kernel"):
            resolve_kernel(wrong, True)


def test_parameters_of_parts_have_their_number_as_prefix():
    X = normal(5, 2, seed=1)
    assert set(Sum((RBF(), Linear())).init(X)) == {f"0.{k}" for k in RBF().init(X)} | {
        f"1.{k}" for k in Linear().init(X)
    }


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


class Triangle(Stationary):
    """A name can be given to any kernel."""

    def profile(self, r2, params):
        return torch.exp(-r2.clamp_min(1e-12).sqrt())


def test_a_registered_name_is_a_name_like_the_others(monkeypatch):
    monkeypatch.setitem(KERNEL_NAMES, "triangle", RBF)  # is removed afterwards
    register_kernel("triangle", Triangle)
    assert resolve_kernel("triangle*constant", False) == Product((Triangle(ard=False), Constant()))
    register_kernel("triangle", Triangle)  # a cell of a notebook may run twice
    with pytest.raises(ValueError, match="'rbf' is a built-in kernel; register yours under another name"):
        register_kernel("rbf", Triangle)
    register_kernel("rbf", RBF)
    assert KERNEL_NAMES["rbf"] is RBF
    with pytest.raises(ValueError, match=r"'tri\+angle'"):
        register_kernel("tri+angle", Triangle)
    with pytest.raises(TypeError, match="init, cross and diag"):
        register_kernel("number", float)
    with pytest.raises(TypeError, match="must be a class"):
        register_kernel("object", Triangle())


def test_isotropic_linear_functions_start_with_a_variance_of_one():
    X = 5.0 * normal(200, 3, seed=2)
    assert float(IsotropicLinear().diag(IsotropicLinear().init(X), X).mean()) == pytest.approx(1.0)
