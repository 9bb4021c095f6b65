"""Data sets on which kernel learning or rivals were seen to collapse end no worse than half-way.

Needs PMLB files: the folder named by BAYESVM_DATA, or ../shared/data/pmlb beside the repository.
"""

import gzip
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from bayesvm import BayesianSVC
from bayesvm._fit import defaults

DATA = Path(os.environ.get("BAYESVM_DATA", Path(__file__).parents[2] / "shared" / "data" / "pmlb"))


def split(name):
    """Three quarters to learn from, one to judge, without classes of one row."""
    path = DATA / name / f"{name}.tsv.gz"
    if not path.is_file():
        pytest.skip(f"no {name} in the data folder; set BAYESVM_DATA to a folder of PMLB sets")
    with gzip.open(path, "rt") as file:
        target = file.readline().rstrip("\n").split("\t").index("target")
        table = np.loadtxt(file, delimiter="\t")
    y = table[:, target]
    _, index, counts = np.unique(y, return_inverse=True, return_counts=True)
    kept = counts[index] > 1
    return train_test_split(
        np.delete(table, target, 1)[kept], y[kept], test_size=0.25, random_state=0, stratify=y[kept]
    )


def judged(X, y, X_test, y_test, max_iter):
    """Whether each test row is right, and its log-loss, after at most that many sweeps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # half-way is not converged
        model = BayesianSVC(random_state=0, max_iter=max_iter).fit(X, y)
    log_p = model.predict_log_proba(X_test)
    index = np.searchsorted(model.classes_, y_test)
    return (log_p.argmax(1) == index).astype(float), -log_p[np.arange(len(index)), index]


def lost(worse):
    """Whether rows got worse on average, beyond noise and by more than would matter.

    A collapse costs tenths; half a hundredth matters to nobody, however
    significant on a hundred thousand rows.
    """
    return worse.mean() > max(0.005, 2.0 * worse.std() / np.sqrt(len(worse)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["krkopt", "letter", "movement_libras", "kddcup"])
def test_the_end_is_no_worse_than_half_way(name, monkeypatch):
    X, X_test, y, y_test = split(name)
    right, loss = judged(X, y, X_test, y_test, defaults.SWEEPS)
    monkeypatch.setattr(defaults, "LEARNING_STEPS", defaults.LEARNING_STEPS // 2)
    half_right, half_loss = judged(X, y, X_test, y_test, defaults.SWEEPS // 2)
    assert np.isfinite(loss).all()
    assert not lost(half_right - right)
    assert not lost(loss - half_loss)
    assert right.mean() > np.unique(y_test, return_counts=True)[1].max() / len(y_test)
