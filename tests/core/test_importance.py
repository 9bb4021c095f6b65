"""Pareto-smoothed weights: exact cases, and the numbers of ArviZ."""

import numpy as np
import pytest
import torch

from bayesvm._core.chains import resampled, smoothed_weights


def _ratios(S: int, N: int, seed: int) -> np.ndarray:
    """Log ratios with tails from light to hopeless, every third with ties as beyond a margin."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((S, N)) * np.linspace(0.3, 3.0, N)
    x[:, ::3] = np.maximum(x[:, ::3], 0.0)
    return x


@pytest.mark.filterwarnings("ignore")
def test_same_weights_as_arviz():
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    x = _ratios(1000, 30, seed=0)
    weight, shape = smoothed_weights(torch.as_tensor(x))
    theirs, k = arviz.psislw(x.T.copy())
    np.testing.assert_allclose(weight, np.exp(theirs).T, rtol=1e-9)
    np.testing.assert_allclose(shape, k, rtol=1e-9, atol=1e-12)


def test_weights_sum_to_one_and_heavy_tails_are_named():
    weight, shape = smoothed_weights(torch.as_tensor(_ratios(2000, 30, seed=1)))
    torch.testing.assert_close(weight.sum(0), torch.ones(30, dtype=torch.float64))
    assert shape[:3].max() < 0.5
    assert shape[-3:].min() > 0.7


def test_equal_ratios_weigh_the_same_and_are_reliable():
    weight, shape = smoothed_weights(torch.zeros(500, 2, dtype=torch.float64))
    torch.testing.assert_close(weight, torch.full_like(weight, 1.0 / 500))
    assert not shape.any()


def test_a_few_draws_that_have_all_the_weight_are_not_trusted():
    x = torch.full((500, 1), -20.0, dtype=torch.float64)
    x[:2] = 0.0
    assert torch.isinf(smoothed_weights(x).shape).all()


def test_tilting_a_gaussian_by_importance():
    """Weights exp(a z) move the mean of a standard normal to a."""
    z = torch.as_tensor(np.random.default_rng(2).standard_normal((20_000, 1)))
    weight, _ = smoothed_weights(0.8 * z)
    assert float((weight * z).sum()) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("S", [1, 3, 12])
def test_few_draws_still_give_weights(S):
    weight, shape = smoothed_weights(torch.as_tensor(_ratios(S, 4, seed=3)))
    assert torch.isfinite(weight).all()
    assert not torch.isnan(shape).any()


def test_resampled_draws_occur_as_often_as_they_weigh():
    weight = torch.tensor([[0.5, 0.0], [0.25, 0.1], [0.25, 0.9]], dtype=torch.float64)
    index = resampled(weight, 40)
    assert index.shape == (40, 2)
    counts = torch.stack([(index == i).sum(0) for i in range(3)])
    assert counts.tolist() == [[20, 0], [10, 4], [10, 36]]
