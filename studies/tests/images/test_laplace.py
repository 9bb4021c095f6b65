"""The Laplace approximation against matrices written out, and against the curvature that autograd finds."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from bayesvm_studies.images.laplace import LastLayerLaplace

N, D, C = 40, 3, 4


@pytest.fixture
def layer():
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return draw(C, D), draw(C), draw(N, D)


def with_one(features):
    return np.concatenate([features.numpy(), np.ones((len(features), 1))], 1)


def test_against_the_kronecker_product_written_out(layer):
    weight, bias, features = layer
    precision = 0.7
    Phi = with_one(features)
    W = np.concatenate([weight.numpy(), bias.numpy()[:, None]], 1)
    z = np.exp(Phi @ W.T)
    p = z / z.sum(1, keepdims=True)
    A = sum(np.outer(f, f) for f in Phi) / N
    B = sum(np.diag(q) - np.outer(q, q) for q in p) / N
    posterior = np.linalg.inv(N * np.kron(B, A) + precision * np.eye(C * (D + 1)))
    found = LastLayerLaplace(weight, bias, features).covariance(features[:5], precision)
    for f, covariance in zip(Phi, found.numpy(), strict=False):
        J = np.kron(np.eye(C), f[None])  # the logits are linear in the weights, class after class
        np.testing.assert_allclose(covariance, J @ posterior @ J.T, rtol=1e-9, atol=1e-12)


def test_against_the_true_curvature_where_the_factors_are_exact(layer):
    """Of rows with the same features the Hessian is one Kronecker product; softmax has no second term."""
    weight, bias, features = layer
    same = features[:1].expand(N, D)
    y = torch.arange(N) % C
    Phi = torch.from_numpy(with_one(same))

    def log_loss(w):
        return functional.cross_entropy(Phi @ w.reshape(C, D + 1).mT, y, reduction="sum")

    w = torch.cat([weight, bias[:, None]], 1).flatten()
    H = torch.autograd.functional.hessian(log_loss, w)
    posterior = torch.linalg.inv(H + 0.3 * torch.eye(len(w), dtype=torch.float64))
    J = torch.kron(torch.eye(C, dtype=torch.float64), torch.from_numpy(with_one(features[3:4])))
    found = LastLayerLaplace(weight, bias, same).covariance(features[3:4], 0.3)[0]
    torch.testing.assert_close(found, J @ posterior @ J.mT, rtol=1e-8, atol=1e-10)


def test_draws_have_the_moments_they_should(layer):
    weight, bias, features = layer
    laplace = LastLayerLaplace(weight, bias, features)
    output = laplace.output(features[:3], 1.0, draws=40_000)
    mean = features[:3] @ weight.mT + bias
    torch.testing.assert_close(output.logits.mean(1), mean, rtol=0.0, atol=1e-9)  # mirrored draws
    centred = output.logits - output.logits.mean(1, keepdim=True)
    covariance = centred.mT @ centred / output.logits.shape[1]
    exact = laplace.covariance(features[:3], 1.0)
    assert float((covariance - exact).abs().max() / exact.abs().max()) < 0.03


def test_a_strong_prior_leaves_the_softmax_and_a_weak_one_doubts(layer):
    weight, bias, features = layer
    laplace = LastLayerLaplace(weight, bias, features)
    softmax = torch.softmax(features @ weight.mT + bias, 1)
    torch.testing.assert_close(laplace.output(features, 1e12).probabilities(), softmax, rtol=1e-5, atol=1e-7)
    doubts = [float(laplace.output(features, d).entropy().mean()) for d in (1e3, 1.0, 1e-1)]
    assert doubts == sorted(doubts)
    assert doubts[2] > doubts[0] + 0.02


def test_the_prior_is_chosen_by_held_out_likelihood(layer):
    weight, bias, features = layer
    laplace = LastLayerLaplace(5.0 * weight, bias, features[:10])
    right = (features @ (5.0 * weight).mT + bias).argmax(1)
    generator = torch.Generator().manual_seed(1)
    other = torch.randint(0, C, (N,), generator=generator)
    mixed = torch.where(torch.arange(N) % 3 == 0, other, right)  # the layer is too sure of these
    doubtful, sure = (laplace.choose_precision(features, y) for y in (mixed, right))
    assert 1e-4 < doubtful < 1e-1 * sure

    def loss(precision):
        return -laplace.output(features, precision).log_probabilities().gather(1, mixed[:, None]).mean()

    assert loss(doubtful) <= min(loss(doubtful * 10**k) for k in (-2.0, -0.25, 0.25, 2.0))


def test_single_precision_features_are_enough(layer):
    weight, bias, features = layer
    single = LastLayerLaplace(weight.float(), bias.float(), features.float())
    exact = LastLayerLaplace(weight, bias, features)
    torch.testing.assert_close(
        single.covariance(features.float(), 1.0), exact.covariance(features, 1.0), rtol=1e-4, atol=1e-5
    )
