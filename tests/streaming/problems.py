"""Problems and chunkings that the tests of streaming share."""

import numpy as np

from bayesvm._fit.engine import Chunk, LocalEngine


def rings(n, n_classes=3, seed=0, n_features=3):
    """Classes as rings around the origin, with noise in the labels and a column that says nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    radius = np.hypot(X[:, 0], X[:, 1])
    y = np.digitize(radius, np.linspace(0.0, 2.2, n_classes + 1)[1:-1])
    wrong = rng.random(n) < 0.05
    return X, np.where(wrong, rng.integers(n_classes, size=n), y)


def batches(size, X, y, weight=None):
    """The rows in batches."""
    parts = (X, y) if weight is None else (X, y, weight)
    return [tuple(part[i : i + size] for part in parts) for i in range(0, len(y), size)]


class Chunks:
    """A source of given chunks."""

    def __init__(self, chunks, feature_names=None):
        self._chunks = chunks
        self.n_features = chunks[0].X.shape[1]
        self.feature_names = feature_names

    def chunks(self):
        yield from self._chunks


def engine(size, X, y, weight=None, **options):
    """An engine over chunks of so many rows."""
    weight = np.ones(len(y)) if weight is None else weight
    return LocalEngine(Chunks([Chunk(*part) for part in batches(size, X, y, weight)]), **options)
