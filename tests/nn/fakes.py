"""A head with the methods of ours and nothing of its mathematics, and small problems to train on.

Tests of the loop use it, so that they say something about the loop alone. It
has everything that makes a head hard to train, stop and resume: state that
its loss moves without gradients, sites collected over parts of a batch, a
start from features, and a random generator of its own.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from bayesvm.nn import HeadError, HeadOutput


class FakeHead(nn.Module):
    def __init__(self, in_features, n_classes, noise=0.01, seed=0):
        super().__init__()
        self.in_features, self.n_classes, self.noise = in_features, n_classes, noise
        generator = torch.Generator().manual_seed(seed)
        self.points = nn.Parameter(
            torch.randn(n_classes, in_features, generator=generator) / math.sqrt(in_features)
        )
        self.register_buffer("offset", torch.zeros(n_classes))
        self.register_buffer("shift", torch.zeros(in_features))
        self.register_buffer("initialised", torch.tensor(False))
        self.register_buffer("temperature", torch.tensor(2.0))
        self.register_buffer("spread", torch.tensor(1.0))
        self.register_buffer("failed", torch.tensor(False))
        self.generator = torch.Generator().manual_seed(seed)
        self.starts, self.collected = 0, []

    def initialise(self, features, y=None):
        self.starts += 1
        self.shift.copy_(features.mean(0))
        self.initialised.fill_(True)

    def _latents(self, features):
        assert features.dtype == torch.float32
        assert not torch.is_autocast_enabled("cpu")
        return functional.linear(features - self.shift, self.points) + self.offset

    def forward(self, features):
        mean = self._latents(features)
        variance = 0.1 + 0.1 * mean.square().mean(1, keepdim=True).expand_as(mean)
        return HeadOutput(mean, variance, self.temperature, self.spread)

    def loss(self, features, y, n_total, *, step=True):
        f = self._latents(features)
        with torch.no_grad():
            self.failed |= ~torch.isfinite(f).all()
            residual = torch.zeros_like(f).scatter_(1, y[:, None], 1.0) - f.softmax(1)
            self.collected.append(residual)
            if step:
                self.offset += 0.05 * torch.cat(self.collected).mean(0)
                self.collected.clear()
        if self.noise:
            f = f + self.noise * torch.randn(f.shape, generator=self.generator)
        likelihood = -functional.cross_entropy(f, y)
        self.last_likelihood = likelihood.detach()
        return self.kl() / n_total - likelihood

    def kl(self):
        return 0.5 * self.points.square().sum()

    def check(self):
        if self.failed:
            raise HeadError("features are not finite; lower the rate")


def blobs(n_rows=200, n_classes=3, n_columns=4, seed=0, spread=1.0):
    """Rows around one centre per class."""
    generator = torch.Generator().manual_seed(seed)
    centres = 2.0 * torch.randn(n_classes, n_columns, generator=torch.Generator().manual_seed(99))
    y = torch.arange(n_rows) % n_classes
    return centres[y] + spread * torch.randn(n_rows, n_columns, generator=generator), y


def network(n_columns=4, n_features=6, seed=0, dropout=0.0, norm=False):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [nn.Linear(n_columns, 16), *([nn.BatchNorm1d(16)] if norm else []), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
        return nn.Sequential(*layers, nn.Linear(16, n_features))


def weights(*modules):
    return {
        f"{i}.{name}": value.detach().clone()
        for i, module in enumerate(modules)
        for name, value in module.state_dict().items()
    }


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
