"""The largest of Gaussian latents plus Gumbel noise, on a lattice (eqs. 6.21, 6.22)."""

import numpy as np
import pytest
import torch

from bayesvm._core.predictive import expected_softmax, predictive_moments
from tests.problems import normal, uniform


def _brute_force(F: np.ndarray, s: np.ndarray) -> np.ndarray:
    """E softmax of one row: fine grids for every latent and for the largest."""
    z = np.linspace(-8.0, 8.0, max(241, int(16 * s.max())))
    w = np.exp(-0.5 * z * z)
    w /= w.sum()
    top = (F + np.minimum(0.5 * s * s, 7.0 * s)).max() + 16.0
    x = np.arange((F - 6.5 * s).max() - 4.0, max((F + 7.0 * s).max(), top), 0.4 * max(1.0, s.min() / 2.0))
    cdf, density = [], []
    for mean, deviation in zip(F, s, strict=True):
        t = np.exp(np.minimum(mean + deviation * z - x[:, None], 600.0))
        cdf.append(np.exp(-t) @ w)
        density.append((t * np.exp(-t)) @ w)
    H = np.array(cdf)
    p = (H.prod(0) * np.array(density) / np.maximum(H, 1e-300)).sum(1)
    return p / p.sum()


def _moments(n_classes, deviation, ratio, seed):
    F = 1.5 * max(1.0, deviation) * normal(3, n_classes, seed=seed)
    return F, deviation * uniform(3, n_classes, seed=seed + 1, low=1.0, high=ratio)


@pytest.mark.parametrize("deviation", [1e-3, 0.2, 0.4, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("ratio", [1.0001, 5.0])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_probabilities_are_brute_force(n_classes, ratio, deviation):
    F, s = _moments(n_classes, deviation, ratio, seed=n_classes)
    p = expected_softmax(F, s.square(), 1.0)
    truth = [_brute_force(f, d) for f, d in zip(F.numpy(), s.numpy(), strict=True)]
    np.testing.assert_allclose(p.numpy(), truth, atol=1e-4, rtol=0)


@pytest.mark.parametrize("deviation", [0.2, 2.0])
def test_probabilities_of_many_classes_are_brute_force(deviation):
    F, s = _moments(100, deviation, 2.0, seed=100)
    truth = _brute_force(F[0].numpy(), s[0].numpy())
    p = expected_softmax(F, s.square(), 1.0)[0].numpy()
    np.testing.assert_allclose(p, truth, atol=1e-4, rtol=0)


@pytest.mark.parametrize("wide", [1.5, 4.0, 8.0])
def test_narrow_latents_beside_a_wide_one_are_brute_force(wide):
    F, s = normal(4, 3, seed=110), torch.tensor([[0.01, 0.3, wide]]).double().expand(4, 3)
    truth = [_brute_force(f, d) for f, d in zip(F.numpy(), s.numpy(), strict=True)]
    np.testing.assert_allclose(expected_softmax(F, s.square(), 1.0).numpy(), truth, atol=1e-4, rtol=0)


def test_classes_far_behind_have_their_exponentials():
    """Also where no lattice reaches them."""
    F = torch.tensor([[0.0, -8.0, -20.0, -60.0]]).double().repeat(20, 1)
    s = torch.tensor([0.01, 0.5, 1.0, 1.5]).double()
    p = expected_softmax(F, s.square().expand(20, 4), 1.0)
    torch.testing.assert_close(p[0] / p[0, 0], torch.exp(F[0] + 0.5 * s.square()), rtol=1e-2, atol=0)


@pytest.mark.parametrize("deviation", [0.2, 1.0, 5.0, 40.0])
def test_permuted_classes_have_permuted_probabilities_and_the_same_entropies(deviation):
    F, s = _moments(8, deviation, 3.0, seed=20)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    ours, theirs = (
        predictive_moments(F, s.square(), 1.0),
        predictive_moments(F[:, order], s[:, order] ** 2, 1.0),
    )
    torch.testing.assert_close(theirs.proba, ours.proba[:, order], rtol=1e-9, atol=1e-13)
    torch.testing.assert_close(theirs.total, ours.total, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(theirs.aleatoric, ours.aleatoric, rtol=1e-9, atol=1e-9)


def test_probabilities_do_not_depend_on_the_rows_beside_them():
    F, s = (torch.cat(t) for t in zip(_moments(5, 0.2, 4.0, 30), _moments(5, 20.0, 4.0, 32), strict=True))
    apart = torch.cat([expected_softmax(f[None], d[None] ** 2, 1.0) for f, d in zip(F, s, strict=True)])
    torch.testing.assert_close(expected_softmax(F, s.square(), 1.0), apart, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("deviation", [1e-12, 1e3, 1e8])
@pytest.mark.parametrize("ratio", [1.0001, 1e7])
def test_extreme_deviations_are_finite_and_sum_to_one(deviation, ratio):
    F, s = _moments(6, deviation, ratio, seed=40)
    proba, total, aleatoric = predictive_moments(F, s.square(), 1.0)
    torch.testing.assert_close(proba.sum(1), torch.ones(3).double())
    assert bool((aleatoric >= 0.0).all())
    assert bool((aleatoric <= total).all())


@pytest.mark.parametrize("deviation", [0.1, 0.5, 2.0, 30.0])
def test_equal_variances_keep_the_order_of_the_means_in_near_ties(deviation):
    F = deviation * normal(1, 6, seed=50).repeat(40, 1)
    F[:, 1] = F[:, 0] + 1e-7
    p = expected_softmax(
        F + uniform(40, 1, seed=51, low=-3.0, high=3.0), torch.full_like(F, deviation**2), 1.0
    )
    assert bool((p[:, 1] > p[:, 0]).all())


@pytest.mark.parametrize("deviation", [0.3, 1.0, 3.0])
def test_aleatoric_entropy_is_monte_carlo_s(deviation):
    F, s = _moments(4, deviation, 2.0, seed=60)
    draws = F + s * normal(400_000, 3, 4, seed=61)
    truth = torch.special.entr(torch.softmax(draws, 2)).sum(2).mean(0)
    torch.testing.assert_close(predictive_moments(F, s.square(), 1.0).aleatoric, truth, atol=3e-3, rtol=0)
