"""The data sets of peers.py, their splits, and the inducing points that all SVGPs start from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from _contest import load_split
from peers_race import DIGITS
from peers_worker import Problem
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from bayesvm._fit.kernel import choose_inducing
from bayesvm._fit.rows import canonical_rows, fit_scaler

__all__ = ["N_INDUCING", "SEED", "SETS", "SPLIT", "digest", "load_problem", "make_problem"]

# Chosen by shape alone, before anything was raced on them; studies/benchmarks/README.md gives the rule.
SETS = (
    "hayes_roth",
    "flags",
    "vehicle",
    "analcatdata_dmft",
    "soybean",
    "car",
    "solar_flare_2",
    "splice",
    "wine_quality_white",
    "mfeat_zernike",
)
# The first split on which no default was chosen (0, 1, 2) and which judges nothing else (42).
SPLIT = 3
SEED = 0
N_INDUCING = 64


def load_problem(folder: Path | None, name: str) -> Problem:
    """Digits, 70/30; or a set of PMLB from ``folder``, a quarter for testing."""
    if name == DIGITS:
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
        return make_problem(X, y, X_test, y_test)
    assert folder is not None
    split = load_split(folder, name, SPLIT)
    y, y_test = (np.searchsorted(split.classes, labels) for labels in (split.y, split.y_test))
    return make_problem(split.X, y, split.X_test, y_test)


def make_problem(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Problem:
    """Add the standardised rows and the k-means centres that BayesianSVC itself would use."""
    seed = int(check_random_state(SEED).randint(np.iinfo(np.int32).max))
    rows = canonical_rows(X, y, np.ones(len(y)), seed)
    scaler = fit_scaler(rows.X, rows.weight)
    S = torch.as_tensor(scaler.transform(rows.X))
    Z = choose_inducing(S, torch.as_tensor(rows.weight), N_INDUCING).numpy()
    n_classes = int(max(y.max(), y_test.max())) + 1
    return Problem(X, y, X_test, y_test, scaler.transform(X), scaler.transform(X_test), Z, n_classes)


def digest(problem: Problem) -> str:
    """Short hash of all numbers of a problem: an old result counts while it stays the same."""
    total = hashlib.sha256()
    for array in problem:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:12]
