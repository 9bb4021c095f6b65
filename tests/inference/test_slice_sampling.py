"""Variational moments against the posterior itself, sampled by elliptical slice sampling."""

import functools

import numpy as np
import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.likelihoods import AugmentedBinaryHinge, BinaryHinge, MulticlassHinge
from bayesvm._inference.rivals import AllRivals
from tests.inference.bounds import settle
from tests.problems import all_features, classification_rows
from tests.reference import elliptical_slice_samples, hinge


def _binary_rows():
    return classification_rows(14, 2, 14, seed=21)


def _three_class_rows():
    return classification_rows(15, 3, 15, seed=22)


def _prior_factor(rows):
    K = rows.kernel.cross(rows.params, rows.X, rows.X) + 1e-9 * torch.eye(len(rows)).double()
    return torch.linalg.cholesky(K).numpy()


@functools.lru_cache(maxsize=2)
def _sampled(kind: str):
    """Mean (N, J) and standard deviation of the latents under the true posterior."""
    rows = _binary_rows() if kind == "binary" else _three_class_rows()
    y = rows.y.numpy()
    if kind == "binary":
        J = 1

        def log_likelihood(f):
            return hinge(1.0 - (2 * y - 1) * f[:, 0, :]).sum(1)
    else:
        J = 3

        def log_likelihood(f):
            own = np.take_along_axis(f, y[None, None, :], 1)[:, 0, :]
            rivals = f.copy()
            np.put_along_axis(rivals, np.broadcast_to(y, (len(f), 1, len(y))).copy(), -np.inf, 1)
            return hinge(1.0 + rivals.max(1) - own).sum(1)

    f = elliptical_slice_samples(_prior_factor(rows), log_likelihood, J, 1500, 160, 60, seed=0)
    if J > 1:  # a common shift is not the likelihood's business
        f = f - f.mean(1, keepdims=True)
    return f.mean(0).T, f.std(0).T


def _variational(rows, likelihood, J):
    q = settle(rows, AllRivals(likelihood), J, 200)
    A, residual = all_features(rows)
    F, s2 = gaussian.mean(q, A), gaussian.variance(q, A) + residual[:, None]
    return F.numpy(), s2.numpy()


def test_the_sampler_returns_the_prior_without_data():
    L = _prior_factor(_binary_rows())
    f = elliptical_slice_samples(L, lambda f: np.zeros(len(f)), 1, 2000, 10, 0, seed=1)[:, 0, :]
    np.testing.assert_allclose(f.mean(0), 0.0, atol=0.06)
    np.testing.assert_allclose(f.T @ f / len(f), L @ L.T, atol=0.1)


def test_the_sampler_returns_the_conjugate_posterior():
    L = _prior_factor(_binary_rows())
    K = L @ L.T
    target = np.linspace(-1, 1, len(K))
    noise = 0.5
    f = elliptical_slice_samples(
        L, lambda f: -0.5 * ((f[:, 0] - target) ** 2).sum(1) / noise, 1, 1500, 80, 40, seed=2
    )[:, 0]
    gain = K @ np.linalg.inv(K + noise * np.eye(len(K)))
    np.testing.assert_allclose(f.mean(0), gain @ target, atol=0.03)
    np.testing.assert_allclose(f.var(0), np.diag(K - gain @ K), rtol=0.1)


def test_exact_binary_moments_are_close_to_the_posterior_s():
    mean, sd = _sampled("binary")
    F, s2 = _variational(_binary_rows(), BinaryHinge(), 1)
    np.testing.assert_allclose(F, mean, atol=0.1 * sd.mean())
    ratio = float((np.sqrt(s2) / sd).mean())
    assert ratio == pytest.approx(0.92, abs=0.04)


def test_augmented_binary_moments_are_too_certain():
    mean, sd = _sampled("binary")
    F, s2 = _variational(_binary_rows(), AugmentedBinaryHinge(), 1)
    np.testing.assert_allclose(F, mean, atol=0.3 * sd.mean())
    ratio = float((np.sqrt(s2) / sd).mean())
    exact = float((np.sqrt(_variational(_binary_rows(), BinaryHinge(), 1)[1]) / sd).mean())
    assert ratio == pytest.approx(0.72, abs=0.08)
    assert ratio < exact - 0.1


def test_three_class_margins_are_close_to_the_posterior_s():
    rows = _three_class_rows()
    mean, sd = _sampled("three classes")
    F, s2 = _variational(rows, MulticlassHinge(64), 3)
    centred = F - F.mean(1, keepdims=True)
    np.testing.assert_allclose(centred, mean, atol=0.35 * sd.mean())
    assert np.corrcoef(centred.ravel(), mean.ravel())[0, 1] > 0.99
    # Classes are independent under q, so a centred latent has this variance.
    total = s2.sum(1, keepdims=True)
    spread = np.sqrt(s2 * (1 - 2 / 3) + total / 9)
    assert float((spread / sd).mean()) == pytest.approx(1.08, abs=0.1)


@pytest.mark.parametrize("kind", ["binary", "three classes"])
def test_posterior_differs_from_prior_so_the_comparison_means_something(kind):
    mean, sd = _sampled(kind)
    assert np.abs(mean).max() > 0.8
    assert sd.mean() < 1.2
