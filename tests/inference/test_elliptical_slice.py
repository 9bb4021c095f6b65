"""Elliptical slices around a reference against quadrature, Gibbs, and slices around the prior."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import BinaryHinge, MulticlassHinge, Softmax
from bayesvm._inference import coordinate, slice
from bayesvm._inference import slice as elliptical
from bayesvm._inference.rivals import AllRivals
from bayesvm._inference.slice import Reference, row_quadratics
from bayesvm._progress import silent
from tests.inference.posteriors import (
    chains_of,
    moments,
    one_dimensional,
    only_row,
    reference_moments,
    task_of,
)
from tests.problems import all_features, classification_rows, generator

LONG = {"max_iter": 4500, "n_draws": 800, "n_chains": 8}


def _agree(chains, known):
    mean, sd = moments(chains)
    known_mean, known_sd = known
    assert np.abs((mean - known_mean) / known_sd).max() < 0.12
    np.testing.assert_allclose(sd, known_sd, rtol=0.09)


@pytest.mark.parametrize(("sign", "weight"), [(1, 1.0), (-1, 3.0)])
def test_one_row_against_quadrature(sign, weight):
    rows = only_row(2.0, sign, weight, classification_rows(8, 2, 4, seed=0))
    chains = chains_of(elliptical.METHOD, task_of(rows, BinaryHinge(), 1, fitc=True, **LONG))
    mean, sd = one_dimensional(2.0, sign, weight)
    _agree(chains, (np.array([[mean]]), np.array([[sd]])))


def test_three_classes_against_slices_around_the_prior():
    rows = classification_rows(15, 3, 15, seed=1)
    chains = chains_of(elliptical.METHOD, task_of(rows, MulticlassHinge(), 3, fitc=True, **LONG))
    assert chains.centred
    _agree(chains, reference_moments(rows, MulticlassHinge(), 3, False, centred=True))


# Slow; three classes without weights run fast.
@pytest.mark.slow
@pytest.mark.parametrize("fitc", [True, False])
def test_sparse_three_classes_with_weights_against_slices_around_the_prior(fitc):
    weight = torch.tensor([1.0, 2.0, 0.5] * 4, dtype=torch.float64)
    rows = classification_rows(12, 3, 4, seed=2, weight=weight)
    chains = chains_of(elliptical.METHOD, task_of(rows, MulticlassHinge(), 3, fitc=fitc, **LONG))
    _agree(chains, reference_moments(rows, MulticlassHinge(), 3, fitc, centred=True))


def test_a_likelihood_without_margin():
    rows = classification_rows(12, 3, 5, seed=3)
    chains = chains_of(elliptical.METHOD, task_of(rows, Softmax(), 3, fitc=True, **LONG))
    _agree(chains, reference_moments(rows, Softmax(), 3, True, centred=True))


# Slow; a binary reference is among the fast tests.
@pytest.mark.slow
def test_a_reference_that_functions_share_gives_the_same_posterior(monkeypatch):
    """It is what large problems use; the reference must not matter to the result."""
    monkeypatch.setattr(slice, "_MOST_JOINT", 0)
    rows = classification_rows(12, 3, 4, seed=2)
    chains = chains_of(elliptical.METHOD, task_of(rows, MulticlassHinge(), 3, fitc=True, **LONG))
    _agree(chains, reference_moments(rows, MulticlassHinge(), 3, True, centred=True))


def test_rows_that_say_nothing_leave_the_prior():
    weight = torch.full((10,), 1e-12, dtype=torch.float64)
    rows = classification_rows(10, 3, 4, seed=4, weight=weight)
    chains = chains_of(elliptical.METHOD, task_of(rows, MulticlassHinge(), 3, fitc=True, **LONG))
    v = chains.merged()
    assert float(v.mean(0).abs().max()) < 0.1
    # Centring takes a third of the variance of three functions away.
    np.testing.assert_allclose(v.var(0), 2.0 / 3.0, rtol=0.12)
    assert float(v.sum(1).abs().max()) < 1e-9


def test_what_earlier_rows_taught_takes_the_place_of_the_prior():
    rows = only_row(1.0, 1, 1.0, classification_rows(8, 2, 4, seed=5))
    task = task_of(rows, BinaryHinge(), 1, fitc=True, **LONG)
    forgotten = Natural(4.0 * task.base.precision, task.base.linear + 2.0)
    f = chains_of(elliptical.METHOD, task._replace(base=forgotten, start=forgotten)).f.flatten()
    grid = torch.linspace(-4, 6, 100_001, dtype=torch.float64)
    density = torch.exp(-2.0 * grid**2 + 2.0 * grid - 2.0 * (1.0 - grid).clamp_min(0.0))
    mean = float((grid * density).sum() / density.sum())
    sd = float((((grid - mean) ** 2 * density).sum() / density.sum()).sqrt())
    assert float(f.mean()) == pytest.approx(mean, abs=0.08 * sd)
    assert float(f.std()) == pytest.approx(sd, rel=0.06)


def test_reference_is_the_posterior_where_that_is_gaussian():
    """Quadratics of rows as they are: mean and covariance of v and f by dense algebra."""
    rows = classification_rows(9, 3, 4, seed=6)
    A, residual = all_features(rows)
    B = torch.randn(9, 3, 3, generator=generator(0), dtype=torch.float64)
    Omega, linear = B @ B.mT, torch.randn(9, 3, generator=generator(1), dtype=torch.float64)
    ref = Reference(A, residual, Omega, linear, Natural.prior(3, rows.Lz), centred=False)
    # All latents and inducing values as one Gaussian: v, then eps.
    J, P, N = 3, 4, 9
    design = torch.cat([torch.kron(A, torch.eye(J)), torch.diag(residual.sqrt().repeat_interleave(J))], 1)
    # Columns of the first part are ordered by inducing point, then function.
    precision = torch.eye(design.shape[1]) + design.mT @ torch.block_diag(*Omega) @ design
    mean = torch.linalg.solve(precision, design.mT @ linear.flatten())
    torch.testing.assert_close(ref.v, mean[: J * P].reshape(P, J).mT)
    torch.testing.assert_close(ref.eps, mean[J * P :].reshape(N, J))
    torch.testing.assert_close(ref.f, (design @ mean).reshape(N, J))
    draws = ref.draw(40_000, generator(2))
    covariance = design @ torch.linalg.inv(precision) @ design.mT
    np.testing.assert_allclose(torch.cov(draws.f.flatten(1).mT), covariance, atol=0.04)
    np.testing.assert_allclose(torch.cov(draws.white.mT), torch.eye(J * (P + N)), atol=0.04)


def test_quadratics_of_rows_are_the_curvature_of_the_bound():
    rows = classification_rows(12, 3, 5, seed=7)
    base = Natural.prior(3, rows.Lz)
    with torch.no_grad():
        q = coordinate.ascend(rows, AllRivals(Softmax()), base, base, 50, 1e-4, silent).q
        A, residual = all_features(rows)
        Omega, linear = row_quadratics(Softmax(), rows.y, rows.weight, q, A, residual, centred=True)
        F = gaussian.mean(q, A)
        s2 = gaussian.variance(q, A) + residual[:, None]
        z = torch.randn(40_000, 1, 3, generator=generator(3), dtype=torch.float64)
        p = torch.softmax(F + s2.sqrt() * z, -1)
    sampled = torch.diag_embed(p.mean(0)) - torch.einsum("snj,snk->njk", p, p) / p.shape[0]
    np.testing.assert_allclose(Omega, sampled, atol=0.01)
    slope = torch.nn.functional.one_hot(rows.y, 3) - p.mean(0)
    np.testing.assert_allclose(linear - (Omega @ F[..., None])[..., 0], slope, atol=0.01)


def test_the_seed_decides():
    rows = classification_rows(20, 3, 6, seed=8)
    task = task_of(rows, MulticlassHinge(), 3, fitc=True, max_iter=30, n_draws=10)
    first, again = (chains_of(elliptical.METHOD, task).f for _ in range(2))
    assert torch.equal(first, again)
    other = chains_of(elliptical.METHOD, task._replace(settings=replace(task.settings, seed=1))).f
    assert not torch.allclose(first, other)
