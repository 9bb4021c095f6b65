"""The kernel's gradient as a sum over rows, against automatic differentiation of the bound itself."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from bayesvm._core import gaussian
from bayesvm._core.features import Features, inducing_factor, whitened_features
from bayesvm._core.kernels import resolve_kernel
from bayesvm._core.likelihoods import MulticlassHinge
from bayesvm._core.likelihoods.hinge import pair_bound
from bayesvm._core.sites import Statistics
from bayesvm._fit import polish
from bayesvm._fit.polish import KernelGradient
from bayesvm._fit.prepare import StandardisedRows
from bayesvm._inference.blocks import Block
from bayesvm._inference.rivals import AllRivals, OneRival

N, P, C = 60, 7, 4


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = torch.as_tensor(rng.normal(size=(N, 3)))
    y, weight = torch.as_tensor(rng.integers(0, C, N)), torch.as_tensor(rng.random(N) + 0.5)
    rows = StandardisedRows(X, y, weight, torch.arange(N))
    kernel = resolve_kernel("0.1*rbf + anova", True)
    R = torch.as_tensor(np.tril(rng.normal(size=(C, P, P))) * 0.3) + 1.5 * torch.eye(P, dtype=torch.float64)
    q = gaussian.Gaussian(torch.as_tensor(rng.normal(size=(C, P))), R)
    return rows, kernel, kernel.init(X), torch.as_tensor(rng.normal(size=(P, 3))), q


def by_autograd(rows, kernel, params, Z, q, rule, number):
    """The rows' part of the bound, all of it differentiated; rivals are those of these parameters."""
    leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
    A, residual = whitened_features(kernel, leaves, Z, inducing_factor(kernel, leaves, Z), rows.X)
    F, s2 = gaussian.mean(q, A), gaussian.variance(q, A) + residual[:, None]
    if isinstance(rule, AllRivals):
        value = MulticlassHinge().row_terms(rows.y, F.detach(), s2.detach()).value
        value = _with_derivatives(rows.y, F, s2, value)
    else:
        block = Block(slice(0, N), Features(A.detach(), residual.detach()), rows.y, rows.weight, rows.key)
        classes = rule.under(q, number)(block, Statistics.zeros(C, P, q.m)).classes
        value = pair_bound(F.gather(1, classes), s2.gather(1, classes)).value
    total = torch.dot(rows.weight, value)
    gradient = torch.autograd.grad(total, list(leaves.values()))
    return float(total.detach()), dict(zip(leaves, gradient, strict=True))


def _with_derivatives(y, F, s2, value):
    """Expected hinge by brute force, which automatic differentiation can go through."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    grids = torch.as_tensor(np.stack(np.meshgrid(*[nodes] * C, indexing="ij")).reshape(C, -1))
    w = torch.as_tensor(np.prod(np.meshgrid(*[weights / np.sqrt(2 * np.pi)] * C, indexing="ij"), 0).ravel())
    f = F[:, :, None] + s2.sqrt()[:, :, None] * grids
    own = f.gather(1, y[:, None, None].expand(-1, 1, f.shape[2]))[:, 0]
    rival = f.scatter(1, y[:, None, None].expand(-1, 1, f.shape[2]), -torch.inf).amax(1)
    return (-2.0 * (1.0 - own + rival).clamp_min(0.0) * w).sum(1)


@pytest.mark.parametrize("rule", [OneRival(sampled=True, seed=3), OneRival(sampled=False)])
def test_one_rival(problem, rule, monkeypatch):
    monkeypatch.setattr(polish, "_BLOCK_ROWS", 17)
    rows, kernel, params, Z, q = problem
    value, gradient = by_autograd(*problem, rule, 5)
    sums = KernelGradient(kernel, params, Z, rule, q, 5)(rows)
    assert float(sums.value) == pytest.approx(value, rel=1e-12)
    for name in params:
        assert_close(sums.gradient[name], gradient[name], rtol=1e-8, atol=1e-9)


# Slow; automatic differentiation checks the same gradient in the fast run.
@pytest.mark.slow
def test_all_rivals_against_brute_force_integration(problem):
    """A grid of 24 points in each of four dimensions sees the kink of the hinge to some thousandths."""
    rows, kernel, params, Z, q = problem
    rule = AllRivals(MulticlassHinge())
    value, gradient = by_autograd(*problem, rule, 0)
    sums = KernelGradient(kernel, params, Z, rule, q, 0)(rows)
    assert float(sums.value) == pytest.approx(value, rel=1e-3)
    size = max(float(g.abs().max()) for g in gradient.values())
    for name in params:
        assert_close(sums.gradient[name], gradient[name], rtol=0.0, atol=0.01 * size)


def test_all_rivals_against_differences(problem):
    """The value at parameters moved a little."""
    rows, kernel, params, Z, q = problem
    rule = AllRivals(MulticlassHinge())

    def value(moved):
        return float(KernelGradient(kernel, moved, Z, rule, q, 0)(rows).value)

    gradient = KernelGradient(kernel, params, Z, rule, q, 0)(rows).gradient
    rng = np.random.default_rng(1)
    for _ in range(3):
        way = {name: torch.as_tensor(rng.normal(size=v.shape)) for name, v in params.items()}
        ends = [value({name: v + step * way[name] for name, v in params.items()}) for step in (1e-4, -1e-4)]
        slope = sum(float((gradient[name] * way[name]).sum()) for name in params)
        assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(slope, rel=1e-5)


def test_sums_of_parts_are_those_of_all_rows(problem):
    rows, kernel, params, Z, q = problem
    work = KernelGradient(kernel, params, Z, OneRival(sampled=True), q, 2)
    whole = work(rows)
    parts = [work(StandardisedRows(*(column[i : i + 25] for column in rows))) for i in (0, 25, 50)]
    joined = parts[0].plus(parts[1]).plus(parts[2])
    assert_close(joined.precision, whole.precision)
    assert_close(joined.linear, whole.linear)
    for name in params:
        assert_close(joined.gradient[name], whole.gradient[name])
