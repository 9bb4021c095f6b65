"""Networks small enough for tests, and the arrays of a tiny set."""

import pytest
from torch import nn

from bayesvm_studies.images import networks
from bayesvm_studies.images.arrays import ImageSpool
from bayesvm_studies.images.networks import Standardise
from studies.tests.images.folders import mnist_folder


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory):
    return mnist_folder(tmp_path_factory.mktemp("images"), 400, 150)


@pytest.fixture
def kept(tmp_path):
    """Where models go."""
    return tmp_path / "kept"


@pytest.fixture
def folder(tiny_data, kept):
    """The arrays of mnist as a worker finds them."""
    spool = ImageSpool(tiny_data, kept)
    yield spool.folder_of("mnist")
    spool.close()


@pytest.fixture
def small_networks(monkeypatch):
    """One layer instead of the paper's networks, for runs in this process."""

    def small(dropout=0.0):
        drop = [nn.Dropout(dropout)] if dropout > 0.0 else []
        layers = [Standardise("mnist"), nn.Flatten(), *drop, nn.Linear(784, 16), nn.ReLU()]
        return nn.Sequential(*layers), 16

    monkeypatch.setattr(networks, "paper_mnist", small)
