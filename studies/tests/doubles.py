"""Models that behave badly on purpose, and a folder and tasks to run them on."""

import os
import time

import numpy as np

from bayesvm_studies.results import Result, Task


class Shares:
    """Gives every class its share of the training rows."""

    def __init__(self, wait=0.0, **ignored):
        self.wait = wait

    def fit(self, X, y):
        time.sleep(self.wait if len(y) > 30 else 0.0)  # not while warming up
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        return self

    def predict_proba(self, X):
        return np.tile(self.shares_, (len(X), 1))


class Failing(Shares):
    def fit(self, X, y):
        raise ArithmeticError("two and two is five")


class FailsOnce(Shares):
    """Fails as long as a file is not there."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def fit(self, X, y):
        if not os.path.exists(self.file):
            raise RuntimeError("not yet")
        return super().fit(X, y)


class Dying(Shares):
    def fit(self, X, y):
        if len(y) > 30:
            os.write(2, b"out of cards\n")
            os._exit(7)
        return super().fit(X, y)


class Noisy(Shares):
    def fit(self, X, y):
        print('{"status": "ok"}')
        return super().fit(X, y)


class NotFinite(Shares):
    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), np.nan)


class Hungry(Shares):
    """Needs so many megabytes for a moment."""

    def __init__(self, megabytes):
        super().__init__()
        self.megabytes = megabytes

    def fit(self, X, y):
        if len(y) > 30:
            np.ones(self.megabytes * 125_000).sum()
        return super().fit(X, y)


def task(estimator="Shares", *, split=0, timeout=None, model="model", data="iris", **arguments):
    config = {"estimator": f"studies.tests.doubles:{estimator}", "arguments": arguments}
    return Task(data, "digest", "olson", split, model, config, {"double": "1"}, timeout)


def as_read(task, **known):
    """A result as it comes back from its line."""
    return Result.from_line(Result.of(task, "ok", **known).to_line())


class Threads(Shares):
    """Says how many threads it may use."""

    def fit(self, X, y):
        import torch

        self.details_ = {"OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"], "torch": torch.get_num_threads()}
        return super().fit(X, y)
