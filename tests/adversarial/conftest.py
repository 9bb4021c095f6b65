"""A small network on scikit-learn's digits, trained once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from bayesvm.adversarial import ImageModel
from bayesvm.nn import HybridClassifier


class Digits(NamedTuple):
    train_X: np.ndarray
    train_y: np.ndarray
    held_X: np.ndarray
    held_y: np.ndarray
    test_X: np.ndarray
    test_y: np.ndarray

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(self.test_X), torch.from_numpy(self.test_y)


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(512, 32), nn.ReLU()),
    )


@pytest.fixture(scope="package")
def digits() -> Digits:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = (X[order] / 16.0).astype(np.float32).reshape(-1, 1, 8, 8), y[order].astype(np.int64)
    parts = (slice(0, 900), slice(900, 1300), slice(1300, None))
    return Digits(*(array[part] for part in parts for array in (X, y)))


@pytest.fixture(scope="package")
def hybrid(digits) -> HybridClassifier:
    model = HybridClassifier(network, n_inducing=20, epochs=15, random_state=0, device="cpu")
    return model.fit(digits.train_X, digits.train_y)


@pytest.fixture(scope="package")
def model(hybrid) -> ImageModel:
    return ImageModel(hybrid.network_, hybrid.head_)


@pytest.fixture(scope="package")
def classifier(hybrid):
    pytest.importorskip("art")
    from bayesvm.adversarial import ArtClassifier

    return ArtClassifier.from_hybrid(hybrid, (1, 8, 8))
