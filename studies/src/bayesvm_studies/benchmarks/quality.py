"""Accuracy, log-loss, calibration and time of untuned classifiers on small PMLB sets.

One stratified split of every set whose file is under 150 kB, classes with one
row dropped. studies/README.md says how to read the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from bayesvm import BayesianSVC
from bayesvm_studies.benchmarks.common import source_version
from bayesvm_studies.benchmarks.comparison import run, small_sets
from bayesvm_studies.competitors.classifiers import ScaledLogisticRegression, TunedSVC

N_SETS = 52

MODELS: dict[str, Callable[[], Any]] = {
    "bayesvm": lambda: BayesianSVC(random_state=0),
    "random_forest": lambda: RandomForestClassifier(200, random_state=0),
    "hist_gradient_boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "svc_grid": lambda: TunedSVC(search_rows=2000),
    "logistic_regression": ScaledLogisticRegression,
}


def version_of(model: str) -> str:
    """What must be unchanged for an old result to count."""
    if model == "bayesvm":
        return source_version()
    # Earlier lines have another sample of rows for the grid search.
    return f"scikit-learn {sklearn.__version__}" + (", stratified sample" if model == "svc_grid" else "")


def all_small_sets(folder: Path) -> list[str]:
    """Names of the sets under 150 kB; says if there are not as many as there should be."""
    names = small_sets(folder)
    if len(names) != N_SETS:
        print(f"WARNING: {len(names)} sets under 150 kB in {folder}, expected {N_SETS}", file=sys.stderr)
    return names


if __name__ == "__main__":
    sys.exit(run("quality", all_small_sets, 42, version_of, __doc__))
