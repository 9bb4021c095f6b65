"""R-hat and effective sample sizes against known values, and against ArviZ where it is installed."""

import numpy as np
import pytest
import torch

from bayesvm._core.chains import bulk_sample_size, split_r_hat, tail_sample_size


def _autoregressive(phi: float, chains: int, draws: int, quantities: int, seed: int) -> torch.Tensor:
    """Stationary chains whose autocorrelation at lag t is phi^t."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((chains, draws, quantities))
    x = np.empty_like(noise)
    x[:, 0] = noise[:, 0] / np.sqrt(1.0 - phi**2)
    for t in range(1, draws):
        x[:, t] = phi * x[:, t - 1] + noise[:, t]
    return torch.as_tensor(x)


@pytest.mark.parametrize("phi", [-0.3, 0.0, 0.5, 0.9])
def test_sample_size_of_autoregressive_chains_is_known(phi):
    x = _autoregressive(phi, 4, 4000, 40, seed=0)
    known = 4 * 4000 * (1.0 - phi) / (1.0 + phi)
    # The estimate itself has an error of some per cent.
    assert float(bulk_sample_size(x).mean()) == pytest.approx(known, rel=0.05)
    assert float(split_r_hat(x).max()) < 1.02


def test_independent_draws_are_worth_their_number_in_the_tails_too():
    x = _autoregressive(0.0, 4, 2000, 30, seed=1)
    assert float(tail_sample_size(x).mean()) == pytest.approx(8000, rel=0.08)


def test_chains_that_disagree_about_the_place_are_found():
    x = _autoregressive(0.2, 4, 500, 3, seed=2)
    x[0, :, 1] += 2.0
    r_hat = split_r_hat(x)
    assert r_hat[1] > 1.1
    assert r_hat[[0, 2]].max() < 1.02
    assert bulk_sample_size(x)[1] < 50


def test_chains_that_disagree_about_the_scale_alone_are_found():
    """The means agree; only the folded ranks see it."""
    x = _autoregressive(0.0, 4, 500, 1, seed=3)
    x[0] *= 4.0
    assert split_r_hat(x)[0] > 1.1


def test_a_drift_inside_chains_is_found_by_splitting():
    x = _autoregressive(0.0, 4, 500, 1, seed=4) + torch.linspace(0, 3, 500, dtype=torch.float64)[:, None]
    assert split_r_hat(x)[0] > 1.2


def test_monotone_transformations_change_nothing():
    x = _autoregressive(0.6, 3, 300, 4, seed=5)
    torch.testing.assert_close(bulk_sample_size(x.exp()), bulk_sample_size(x))
    torch.testing.assert_close(tail_sample_size(x.exp()), tail_sample_size(x))


def test_constant_quantities_and_short_chains_give_plain_answers():
    constant = torch.ones(4, 100, 2, dtype=torch.float64)
    assert torch.equal(split_r_hat(constant) < 1.001, torch.tensor([True, True]))
    assert torch.equal(bulk_sample_size(constant), torch.full((2,), 400.0, dtype=torch.float64))
    apart = constant + torch.arange(4.0, dtype=torch.float64)[:, None, None]
    assert torch.isinf(split_r_hat(apart)).all()
    short = torch.randn(4, 3, 2, dtype=torch.float64)
    assert torch.isinf(split_r_hat(short)).all()
    assert not bulk_sample_size(short).any()
    assert not tail_sample_size(short).any()


@pytest.mark.parametrize(("chains", "draws"), [(4, 500), (2, 101), (4, 37)])
@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.9])
@pytest.mark.filterwarnings("ignore")
def test_same_numbers_as_arviz(phi, chains, draws):
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    x = _autoregressive(phi, chains, draws, 6, seed=6)
    x[:, :, 5] = (2.0 * x[:, :, 5]).round()  # ties
    each = [x[:, :, i].numpy() for i in range(6)]
    np.testing.assert_allclose(split_r_hat(x), [arviz.rhat(a) for a in each], rtol=1e-12)
    np.testing.assert_allclose(bulk_sample_size(x), [arviz.ess(a) for a in each], rtol=1e-10)
    np.testing.assert_allclose(tail_sample_size(x), [arviz.ess(a, method="tail") for a in each], rtol=1e-10)
