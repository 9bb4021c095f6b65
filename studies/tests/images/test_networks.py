"""The networks: layers of the paper, shapes, numbers of parameters, precision, gradients."""

import pytest
import torch
from torch import nn

from bayesvm_studies.images.networks import (
    PIXEL_MOMENTS,
    Residual,
    Standardise,
    paper_cifar10,
    paper_mnist,
    residual9,
)

NARROW = 4
CASES = {
    "paper_mnist": (paper_mnist, (1, 28, 28), 100),
    "paper_cifar10": (paper_cifar10, (3, 32, 32), 100),
    "residual9": (lambda **kw: residual9(NARROW, **kw), (3, 32, 32), 8 * NARROW),
}


def images(shape, n=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, *shape), dtype=torch.uint8, generator=generator)


@pytest.fixture(autouse=True)
def same_weights():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def built(name, **kwargs):
    make, shape, n_features = CASES[name]
    network, found = make(**kwargs)
    assert found == n_features
    return network, images(shape), n_features


@pytest.mark.parametrize("name", CASES)
def test_features(name):
    network, X, n_features = built(name)
    features = network(X)
    assert features.shape == (4, n_features)
    assert features.dtype == torch.float32
    assert features.isfinite().all()
    assert (features >= 0).all()  # they come out of a ReLU
    assert (features > 0).any(0).float().mean() > 0.2  # and most of them live
    assert features.std(0).max() > 0  # images differ


def convolution(inputs, outputs, size):
    return outputs * inputs * size * size + outputs


def dense(inputs, outputs):
    return (inputs + 1) * outputs


def normalised(inputs, outputs):
    return outputs * inputs * 9 + 2 * outputs  # no bias, but a scale and a shift


def test_numbers_of_parameters():
    """Counted from what the paper writes, conv(32,5,5)-conv(64,3,3)-max_pool-fc(1024)-fc(100) and so on."""

    def count(network):
        return sum(p.numel() for p in network[0].parameters())

    mnist = convolution(1, 32, 5) + convolution(32, 64, 3) + dense(64 * 14 * 14, 1024) + dense(1024, 100)
    assert count(paper_mnist()) == mnist == 12_967_908
    cifar = convolution(3, 128, 3) + 2 * convolution(128, 128, 3) + dense(128 * 8 * 8, 256) + dense(256, 100)
    assert count(paper_cifar10()) == cifar == 2_421_860
    w = 96
    residual = normalised(3, w) + normalised(w, 2 * w) + 2 * normalised(2 * w, 2 * w)
    residual += normalised(2 * w, 4 * w) + normalised(4 * w, 8 * w) + 2 * normalised(8 * w, 8 * w)
    assert count(residual9()) == residual == 14_773_344


def kinds(network):
    short = {
        nn.Conv2d: "conv",
        nn.Linear: "fc",
        nn.MaxPool2d: "pool",
        nn.ReLU: "relu",
        nn.BatchNorm2d: "norm",
    }
    return [short[type(m)] for m in network.modules() if type(m) in short]


def test_the_order_of_the_layers():
    conv, fc = ["conv", "relu"], ["fc", "relu"]
    assert kinds(paper_mnist()[0]) == [*conv, *conv, "pool", *fc, *fc]
    assert kinds(paper_cifar10()[0]) == [*conv, *conv, "pool", *conv, "pool", *fc, *fc]
    block = ["conv", "norm", "relu"]
    assert (
        kinds(residual9(2)[0]) == 2 * block + ["pool"] + 3 * block + ["pool"] + block + ["pool"] + 2 * block
    )


@pytest.mark.parametrize("name", CASES)
def test_gradients_reach_every_parameter(name):
    network, X, _ = built(name)
    network(X).square().sum().backward()
    for label, parameter in network.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all(), label
        assert parameter.grad.abs().sum() > 0, label


@pytest.mark.parametrize("name", CASES)
def test_bf16(name):
    network, X, n_features = built(name)
    network.eval()
    with torch.no_grad():
        full = network(X)
    with torch.autocast("cpu", torch.bfloat16):
        features = network(X)
    assert features.dtype == torch.bfloat16
    assert features.shape == (4, n_features)
    assert (features.float() - full).norm() < 0.05 * full.norm()
    features.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("name", CASES)
def test_bytes_and_numbers_are_the_same_images(name):
    network, X, _ = built(name)
    network.eval()
    with torch.no_grad():
        torch.testing.assert_close(network(X), network(X.float()), rtol=0, atol=0)
        alone = torch.cat([network(x[None]) for x in X])
        torch.testing.assert_close(network(X), alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_channels_come_last_in_memory(name):
    network, X, _ = built(name)
    seen = []
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            assert module.weight.is_contiguous(memory_format=torch.channels_last)
            module.register_forward_hook(lambda _, inputs, out: seen.append((inputs[0], out)))
    network(X)
    assert seen
    for tensor in (t for pair in seen for t in pair):
        assert tensor.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", CASES)
def test_dropout_variants(name):
    """They have the same parameters, differ in training, and agree with the plain network otherwise."""
    plain, X, _ = built(name)
    other, _, _ = built(name, dropout=0.3)
    rates = [module.p for module in other.modules() if isinstance(module, nn.Dropout)]
    assert rates == [0.3, 0.3]
    assert not any(isinstance(module, nn.Dropout) for module in plain.modules())
    for to, from_ in zip(other.parameters(), plain.parameters(), strict=True):
        to.data.copy_(from_.data)
    with torch.no_grad():
        assert (other(X) != other(X)).any()
        plain.eval()
        other.eval()
        for module in other.modules():  # statistics of training passes
            if isinstance(module, nn.BatchNorm2d):
                module.reset_running_stats()
        torch.testing.assert_close(other(X), plain(X))


@pytest.mark.parametrize("name", PIXEL_MOMENTS)
def test_standardise(name):
    mean, deviation = PIXEL_MOMENTS[name]
    X = images((len(mean), 5, 6))
    found = Standardise(name)(X)
    assert found.stride() == (30 * len(mean), 1, 6 * len(mean), len(mean))
    for c in range(len(mean)):
        torch.testing.assert_close(found[:, c], (X[:, c] / 255 - mean[c]) / deviation[c])
    assert not list(Standardise(name).parameters())


def test_the_residual_block_adds():
    block = Residual(3).eval()
    x = torch.randn(2, 3, 8, 8)
    nn.init.zeros_(block.branch[3].weight)  # second convolution: the branch is zero
    torch.testing.assert_close(block(x), x)
    fresh = Residual(3).eval()
    torch.testing.assert_close(fresh(x), x + fresh.branch(x))
    assert fresh.branch(x).abs().sum() > 0
