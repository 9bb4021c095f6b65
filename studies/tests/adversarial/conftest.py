"""Networks small enough for tests, trained on a tiny set and kept."""

import dataclasses

import pytest

from bayesvm_studies.adversarial import AdversarialSettings
from bayesvm_studies.adversarial.plan import make_plan
from bayesvm_studies.images.arrays import ImageSpool
from bayesvm_studies.images.training import measure as train
from studies.tests.images.conftest import small_networks, tiny_data  # noqa: F401

SETTINGS = {"group": "mnist", "seeds": 2, "epochs": 8}


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    """Where models are; filled by the first test that needs them."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def folder(tiny_data, kept):  # noqa: F811
    """The arrays of mnist as a worker finds them."""
    spool = ImageSpool(tiny_data, kept, elsewhere=False)
    yield spool.folder_of("mnist")
    spool.close()


@pytest.fixture
def plan(tiny_data, kept, folder, small_networks):  # noqa: F811
    """Attacks on models that are there."""
    settings = AdversarialSettings(**SETTINGS, models_from=str(kept))
    for task in make_plan(settings, tiny_data).stages[0].tasks:
        train(dataclasses.asdict(task), folder, lambda: None)
    return make_plan(settings, tiny_data)
