"""Who takes part in the contest: models of the structured study, CatBoost, RealMLP and EBM."""

from __future__ import annotations

from typing import Any

from bayesvm_studies.structured.contestants import HERE, SKLEARN, Contestant
from bayesvm_studies.structured.contestants import contestants as structured_contestants

PROTOCOL = "olson"
OURS = "bayesvm"
CATBOOST_LIMIT_S = 120.0
# Of RealMLP and EBM, whose fits take long: sets up to so many rows, and so many of the ten folds.
PART_ROWS, PART_FOLDS = 5000, 3

_CATBOOST: dict[str, Any] = {
    "thread_count": 1,
    "random_seed": 0,
    "verbose": False,
    "allow_writing_files": False,
}
_TABULAR = f"{HERE}.competitors.tabular"
_OTHERS = ("random_forest", "hist_gradient_boosting", "lightgbm", "logistic_regression", "svc_grid")


def _on_a_part(name: str, title: str, estimator: str, package: str, **arguments: Any) -> Contestant:
    packages = (*SKLEARN, package)
    return Contestant(name, title, estimator, arguments, packages, max_rows=PART_ROWS, max_folds=PART_FOLDS)


def contestants() -> dict[str, Contestant]:
    """The models by name, ours first.

    Examples
    --------
    >>> list(contestants())[:3]
    ['bayesvm', 'catboost', 'random_forest']
    """
    known = structured_contestants(PROTOCOL)
    catboost = Contestant(
        "catboost",
        "CatBoost",
        "catboost:CatBoostClassifier",
        _CATBOOST,
        ("numpy", "catboost"),
        limit_s=CATBOOST_LIMIT_S,
    )
    every = (
        known[OURS],
        catboost,
        *(known[name] for name in _OTHERS),
        _on_a_part("realmlp", "RealMLP-TD", f"{_TABULAR}:RealMLP", "pytabkit", random_state=0),
        _on_a_part("ebm", "EBM", f"{_TABULAR}:EBM", "interpret"),
    )
    return {c.name: c for c in every}
