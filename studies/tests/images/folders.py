"""Tiny image sets that can be learned, in the published formats."""

import gzip
import pickle
from pathlib import Path

import numpy as np

from studies.tests.datasets.image_files import BATCH_NAMES, IDX_NAMES, idx_bytes


def patterned(n, shape, seed):
    """Images of ten classes: the same random pattern for each class, and noise."""
    patterns = np.random.default_rng(7).integers(0, 200, (10, *shape))
    y = np.arange(n) % 10
    noise = np.random.default_rng(seed).integers(0, 56, (n, *shape))
    return (patterns[y] + noise).astype(np.uint8), y


def mnist_folder(folder, n_train=300, n_test=100):
    """A folder with mnist, and with noise as fashion_mnist."""
    folder = Path(folder)
    sets = {"mnist": patterned, "fashion_mnist": noise}
    for name, make in sets.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        train, test = make(n_train, (28, 28), 0), make(n_test, (28, 28), 1)
        for file, array in zip(IDX_NAMES, (*train, *test), strict=True):
            (folder / name / f"{file}.gz").write_bytes(gzip.compress(idx_bytes(array)))
    return folder


def noise(n, shape, seed):
    return np.random.default_rng(seed).integers(0, 256, (n, *shape)), np.arange(n) % 10


def cifar_folder(folder, n=20):
    """A folder with six batches of n images."""
    place = Path(folder) / "cifar-10-batches-py"
    place.mkdir(parents=True)
    for i, name in enumerate(BATCH_NAMES):
        X, y = patterned(n, (3, 32, 32), i)
        content = {b"data": X.reshape(n, -1), b"labels": y.tolist(), b"batch_label": name.encode()}
        (place / name).write_bytes(pickle.dumps(content))
    return Path(folder)
