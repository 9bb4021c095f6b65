"""Sets in folders, as files and as arrays."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from studies.tests.datasets.folders import iris_folder


@pytest.fixture(scope="session")
def sets(tmp_path_factory):
    """A folder of PMLB with one set."""
    return iris_folder(tmp_path_factory.mktemp("pmlb"))


@pytest.fixture(scope="session")
def arrays(tmp_path_factory):
    """A folder with X.npy and y.npy."""
    folder = tmp_path_factory.mktemp("arrays")
    X, y = load_iris(return_X_y=True)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y.astype(float))
    return folder
