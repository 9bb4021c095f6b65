"""Gibbs chains against quadrature, against slices around the prior, and against each other."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import BinaryHinge, MulticlassHinge, OneVsRest, ScaleMixture, Softmax
from bayesvm._core.likelihoods.hinge import mixture_scales
from bayesvm._inference import gibbs
from bayesvm._inference.rivals import AllRivals
from bayesvm._inference.task import Member
from tests.inference.posteriors import (
    chains_of,
    moments,
    one_dimensional,
    only_row,
    reference_moments,
    task_of,
)
from tests.problems import all_features, classification_rows, generator

LONG = {"max_iter": 3000, "n_draws": 1000, "n_chains": 8}


@pytest.mark.parametrize("b", [-2.5, -0.3, 1e-3, 0.8, 4.0])
def test_reciprocal_scales_are_inverse_gaussian(b):
    scale = mixture_scales(torch.full((20_000,), b, dtype=torch.float64), generator(0))
    assert stats.kstest(1.0 / scale.numpy(), stats.invgauss(1.0 / abs(b)).cdf).pvalue > 0.01


def test_scales_at_the_kink_are_chi_squared_and_extremes_are_finite():
    scale = mixture_scales(torch.zeros(20_000, dtype=torch.float64), generator(1))
    assert stats.kstest(scale.numpy(), stats.chi2(1).cdf).pvalue > 0.01
    extreme = mixture_scales(torch.tensor([1e-300, 1e-12, 1e8, -1e8], dtype=torch.float64), generator(2))
    assert torch.isfinite(extreme).all()
    assert (extreme > 0).all()


def test_scales_and_latents_keep_the_posterior_of_a_weighted_row():
    """One sweep of both conditionals leaves N(0, 1) exp(-2 c hinge) as it is, for any weight."""
    c, grid = 2.6, np.linspace(-6, 6, 200_001)
    density = np.exp(-0.5 * grid**2 - 2 * c * np.maximum(0, 1 - grid))
    cdf = np.cumsum(density) / density.sum()
    f = torch.as_tensor(np.interp(np.random.default_rng(3).random(40_000), cdf, grid))[:, None, None]
    g = generator(4)
    y, weight = torch.tensor([1]), torch.tensor([c], dtype=torch.float64)
    target, variance = BinaryHinge().drawn_sites(y, f, weight, g)
    precision = 1.0 + 1.0 / variance
    noise = torch.randn(f.shape, generator=g, dtype=torch.float64)
    after = target / variance / precision + noise / precision.sqrt()
    assert stats.kstest(after.flatten().numpy(), lambda x: np.interp(x, grid, cdf)).pvalue > 0.01


@pytest.mark.parametrize(("sign", "weight"), [(1, 1.0), (-1, 3.0), (1, 0.4)])
def test_one_row_against_quadrature(sign, weight):
    rows = only_row(2.0, sign, weight, classification_rows(8, 2, 4, seed=0))
    mean, sd = moments(chains_of(gibbs.METHOD, task_of(rows, BinaryHinge(), 1, fitc=True, **LONG)))
    known_mean, known_sd = one_dimensional(2.0, sign, weight)
    assert mean[0, 0] == pytest.approx(known_mean, abs=0.05 * known_sd)
    assert sd[0, 0] == pytest.approx(known_sd, rel=0.05)


@pytest.mark.parametrize("fitc", [True, False])
def test_sparse_posterior_against_slices_around_its_prior(fitc):
    """The formulas of FITC against the dense Gaussian prior Q + diag(K - Q) that they stand for."""
    weight = torch.tensor([1.0, 2.0, 0.5] * 4, dtype=torch.float64)
    rows = classification_rows(12, 2, 4, seed=1, weight=weight)
    mean, sd = moments(chains_of(gibbs.METHOD, task_of(rows, BinaryHinge(), 1, fitc=fitc, **LONG)))
    known_mean, known_sd = reference_moments(rows, BinaryHinge(), 1, fitc)
    assert np.abs((mean - known_mean) / known_sd).max() < 0.09
    np.testing.assert_allclose(sd, known_sd, rtol=0.06)


def test_the_residual_matters_in_this_problem():
    """Otherwise the test above would say nothing about it."""
    rows = classification_rows(12, 2, 4, seed=1)
    with_it, without = (
        moments(chains_of(gibbs.METHOD, task_of(rows, BinaryHinge(), 1, fitc=fitc, **LONG)))[1]
        for fitc in (True, False)
    )
    assert (with_it / without).max() > 1.3


def test_with_all_rows_as_inducing_points_fitc_is_the_dense_model():
    rows = classification_rows(12, 2, 12, seed=2)
    assert float(all_features(rows)[1].max()) < 1e-7
    mean, sd = moments(chains_of(gibbs.METHOD, task_of(rows, BinaryHinge(), 1, fitc=True, **LONG)))
    known_mean, known_sd = reference_moments(rows, BinaryHinge(), 1, False)
    assert np.abs((mean - known_mean) / known_sd).max() < 0.09
    np.testing.assert_allclose(sd, known_sd, rtol=0.06)


def test_without_residuals_latents_are_those_of_the_inducing_values():
    rows = classification_rows(20, 2, 5, seed=3)
    chains = chains_of(gibbs.METHOD, task_of(rows, BinaryHinge(), 1, fitc=False, max_iter=400, n_draws=50))
    torch.testing.assert_close((chains.v @ all_features(rows)[0].mT).mT, chains.f)


def test_one_vs_rest_is_a_binary_chain_per_class():
    rows = classification_rows(14, 3, 5, seed=4)
    mean, sd = moments(chains_of(gibbs.METHOD, task_of(rows, OneVsRest(BinaryHinge()), 3, fitc=True, **LONG)))
    for j in range(3):
        binary = replace(rows, y=(rows.y == j).long(), n_classes=2)
        m, s = moments(chains_of(gibbs.METHOD, task_of(binary, BinaryHinge(), 1, fitc=True, seed=9, **LONG)))
        assert np.abs((mean[:, j] - m[:, 0]) / s[:, 0]).max() < 0.12
        np.testing.assert_allclose(sd[:, j], s[:, 0], rtol=0.08)


def test_what_earlier_rows_taught_takes_the_place_of_the_prior():
    """A Gaussian site in the base is the same as one more precision in quadrature."""
    rows = only_row(1.0, 1, 1.0, classification_rows(8, 2, 4, seed=5))
    task = task_of(rows, BinaryHinge(), 1, fitc=True, **LONG)
    forgotten = Natural(4.0 * task.base.precision, task.base.linear)
    _, sd = moments(chains_of(gibbs.METHOD, task._replace(base=forgotten, start=forgotten)))
    assert sd[0, 0] == pytest.approx(one_dimensional(0.25, 1, 1.0)[1], rel=0.05)


def test_blocks_do_not_matter_and_the_seed_does(monkeypatch):
    rows = classification_rows(600, 2, 4, seed=6)
    task = task_of(rows, BinaryHinge(), 1, fitc=True, max_iter=20, n_draws=5)
    whole = chains_of(gibbs.METHOD, task)
    monkeypatch.setattr(gibbs, "_BLOCK_NUMBERS", 1)
    torch.testing.assert_close(chains_of(gibbs.METHOD, task).v, whole.v, rtol=1e-6, atol=1e-6)
    other = chains_of(gibbs.METHOD, task._replace(settings=replace(task.settings, seed=1)))
    assert not torch.allclose(other.v, whole.v)


def test_only_scale_mixtures_can_be_sampled_this_way():
    assert isinstance(BinaryHinge(), ScaleMixture)
    for likelihood in (MulticlassHinge(), Softmax()):
        assert gibbs.METHOD.missing(Member(likelihood, AllRivals(likelihood))) is not None
    assert gibbs.METHOD.missing(Member(BinaryHinge(), AllRivals(BinaryHinge()))) is None
    with pytest.raises(TypeError, match="scale mixture"):
        OneVsRest(Softmax()).drawn_sites(
            torch.tensor([0]), torch.zeros(1, 1, 2), torch.ones(1), torch.Generator()
        )
