"""Who takes part in which protocol, exactly how they are built, and how a set is split.

The paper does not say how it split; a stratified split with a quarter for
testing stands in, with one seed for all sets. Classes with a single row
cannot be on both sides and are left out there. The ten folds are those of
Olson et al. (2018).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

import bayesvm
from bayesvm_studies.competitors.svgp import gpflow_python, gpflow_versions
from bayesvm_studies.datasets import SetInfo
from bayesvm_studies.results import as_recorded
from bayesvm_studies.versions import module_digest, package_versions

PROTOCOLS = ("paper", "olson")
PAPER_SEED = 2018
PAPER_TEST_SHARE = 0.25
OLSON_FOLDS = 10
OLSON_SEED = 90483257

Indices = npt.NDArray[np.intp]


def splits_of(protocol: str, n_folds: int | None = None) -> list[int]:
    """Numbers of the splits: folds of Olson's protocol, the seed of the paper's.

    Parameters
    ----------
    protocol : {"paper", "olson"}
    n_folds : int or None
        Only the first folds; None: all ten.
    """
    if protocol == "paper":
        return [PAPER_SEED]
    if protocol != "olson":
        raise ValueError(f"protocol {protocol!r} is not known; give one of {', '.join(PROTOCOLS)}")
    if n_folds is not None and not 1 <= n_folds <= OLSON_FOLDS:
        raise ValueError(f"folds {n_folds} is not valid; give a number from 1 to {OLSON_FOLDS}")
    return list(range(OLSON_FOLDS if n_folds is None else n_folds))


def split_rows(protocol: str, y: npt.NDArray[Any], split: int) -> tuple[Indices, Indices]:
    """Rows to train on and rows to test on.

    Parameters
    ----------
    protocol : {"paper", "olson"}
    y : ndarray of shape (n_rows,)
    split : int
        One of :func:`splits_of`.
    """
    from sklearn.model_selection import StratifiedKFold, train_test_split

    if protocol == "paper":
        _, index, counts = np.unique(y, return_inverse=True, return_counts=True)
        kept = np.flatnonzero(counts[index] > 1)
        train, test = train_test_split(kept, test_size=PAPER_TEST_SHARE, stratify=y[kept], random_state=split)
        return np.sort(train), np.sort(test)
    folds = StratifiedKFold(OLSON_FOLDS, shuffle=True, random_state=OLSON_SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with fewer rows than folds: so it was in 2018
        train, test = list(folds.split(np.zeros((len(y), 1)), y))[split]
    return train, test


OWN_PACKAGES = ("bayesvm", "numpy", "scikit-learn", "torch")
SKLEARN = ("numpy", "scikit-learn")
HERE = "bayesvm_studies"
GP_LIMIT = 5000
COMPETITOR_LIMIT_S = 600.0
MULTI_CLASS = "multi_class"

PAPER_EPOCHS = 1000
# The recipe of BayesianSVC.paper(), spelled out for all three models.
PAPER_RECIPE: dict[str, Any] = {
    "n_inducing": 64,
    "learn_inducing": True,
    "kernel": "rbf",
    "inference": "adam",
    "hyperparameters": "elbo",
    "learning_rate": 5e-4,
    "batch_size": 1024,
    "max_iter": PAPER_EPOCHS,
    "tol": 0.0,
    "random_state": 0,
}


@dataclass(frozen=True)
class Contestant:
    """A model in a protocol.

    Attributes
    ----------
    name, title : str
        In files and options, and in tables and figures.
    estimator : str
        "module:name" of a class with ``fit`` and ``predict_proba``.
    arguments : dict
        For its constructor; plain numbers and strings.
    packages : tuple of str
        Distributions whose versions make a result another one.
    ours : bool
        Part of this library: may be given a device.
    limit_s : float or None
        Fits that take longer are ended; None: no limit.
    max_rows : int or None
        Sets with more rows are not tried.
    max_folds : int or None
        Only so many of the first folds are tried.
    """

    name: str
    title: str
    estimator: str
    arguments: dict[str, Any]
    packages: tuple[str, ...]
    ours: bool = False
    limit_s: float | None = COMPETITOR_LIMIT_S
    max_rows: int | None = None
    max_folds: int | None = None

    @property
    def everywhere(self) -> bool:
        """Whether it is tried on every set and fold."""
        return self.max_rows is None and self.max_folds is None

    def takes(self, info: SetInfo) -> bool:
        """Whether it is tried on a set."""
        return self.max_rows is None or info.rows <= self.max_rows

    def config(self, device: str = "cpu", epochs: int | None = None) -> dict[str, Any]:
        """What is built, in plain JSON.

        Parameters
        ----------
        device : str
            For models of this library.
        epochs : int or None
            Instead of the paper's thousand, if the model follows its recipe.
        """
        arguments = dict(self.arguments)
        if self.ours and device != "cpu":
            arguments["device"] = device
        built: dict[str, Any] = {"estimator": self.estimator, "arguments": arguments}
        if epochs is not None and arguments.get("max_iter") == PAPER_EPOCHS and epochs != PAPER_EPOCHS:
            arguments["max_iter"] = epochs
            built["shortened"] = True
        return built


def _own(name: str, title: str, estimator: str, limited: bool = False, **arguments: Any) -> Contestant:
    limit = COMPETITOR_LIMIT_S if limited else None
    return Contestant(name, title, estimator, arguments, OWN_PACKAGES, ours=True, limit_s=limit)


def _other(
    name: str, title: str, estimator: str, packages: tuple[str, ...] = SKLEARN, **arguments: Any
) -> Contestant:
    limit = GP_LIMIT if packages[0] in ("gpflow", "gpytorch") else None
    return Contestant(name, title, estimator, arguments, packages, max_rows=limit)


_OVR, _SVC = f"{HERE}.structured.one_vs_rest:IndependentOneVsRest", "bayesvm:BayesianSVC"
_BATCHED, _SVGP = "bayesvm:OneVsRestBayesianSVC", "bayesvm:SVGPClassifier"
_AUGMENTED = {"expectation": "augmented", **PAPER_RECIPE}
_PAPER = (
    _own(MULTI_CLASS, "Multi-class", _SVC, rivals="mean", local=False, normal_scores=False, **PAPER_RECIPE),
    _own("one_vs_rest", "One-vs-rest", _OVR, **_AUGMENTED),
    _own("svgp", "SVGP", _SVGP, likelihood="robustmax", **PAPER_RECIPE),
    _own("one_vs_rest_batched", "One-vs-rest, batched", _BATCHED, **_AUGMENTED),
    _own("default", "Default recipe", _SVC, random_state=0),
)

_CLASSIFIERS, _PEERS = f"{HERE}.competitors.classifiers", f"{HERE}.competitors.svgp"
_FOREST: dict[str, Any] = {"n_estimators": 500, "random_state": 0}
_BOOSTING = "sklearn.ensemble:HistGradientBoostingClassifier"
_LIGHTGBM = {"n_jobs": 1, "verbosity": -1, "deterministic": True, "force_row_wise": True, "random_state": 0}
_STEPS: dict[str, Any] = {"n_inducing": 64, "steps": 500, "random_state": 0}
_OLSON = (
    _own("bayesvm", "BayesianSVC", _SVC, random_state=0),
    _own("one_vs_rest", "One-vs-rest", _BATCHED, limited=True, random_state=0),
    _own("svgp", "SVGP", _SVGP, limited=True, random_state=0),
    _other("svc_grid", "SVC, grid search", f"{_CLASSIFIERS}:TunedSVC", random_state=0),
    _other("random_forest", "Random forest", "sklearn.ensemble:RandomForestClassifier", **_FOREST),
    _other("hist_gradient_boosting", "HistGradientBoosting", _BOOSTING, random_state=0),
    _other("lightgbm", "LightGBM", "lightgbm:LGBMClassifier", (*SKLEARN, "lightgbm"), **_LIGHTGBM),
    _other(
        "logistic_regression",
        "Logistic regression",
        f"{_CLASSIFIERS}:ScaledLogisticRegression",
        max_iter=2000,
    ),
    _other(
        "gpflow_svgp",
        "GPflow SVGP",
        f"{_PEERS}:GPflowSVGP",
        ("gpflow", "tensorflow"),
        learning_rate=0.02,
        **_STEPS,
    ),
    _other(
        "gpytorch_svgp",
        "GPyTorch SVGP",
        f"{_PEERS}:GPyTorchSVGP",
        ("gpytorch", "torch"),
        learning_rate=0.4,
        **_STEPS,
    ),
)


def contestants(protocol: str) -> dict[str, Contestant]:
    """The models of a protocol by name.

    Examples
    --------
    >>> list(contestants("paper"))
    ['multi_class', 'one_vs_rest', 'svgp', 'one_vs_rest_batched', 'default']
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol {protocol!r} is not known; give one of {', '.join(PROTOCOLS)}")
    return {c.name: c for c in (_PAPER if protocol == "paper" else _OLSON)}


def versions_of(contestant: Contestant) -> dict[str, str]:
    """Versions of what a model is made of; an adapter of ours counts by its content."""
    gpflow = contestant.packages[0] == "gpflow"
    found = gpflow_versions() if gpflow else package_versions(contestant.packages)
    module = contestant.estimator.split(":")[0]
    if module.startswith(f"{HERE}."):
        script = [f"{HERE}.competitors.gpflow_script"] if gpflow else []
        recorded = as_recorded(contestant.estimator).split(":")[0]
        found[recorded] = module_digest(module, *script)
    return found


def missing(contestant: Contestant) -> str | None:
    """Why a model cannot run here, or None."""
    module, name = contestant.estimator.split(":")
    if module == "bayesvm":
        return None if name in dir(bayesvm) else f"this version of bayesvm has no {name}"
    if contestant.packages[0] == "gpflow":
        return None if gpflow_python() else "no Python with GPflow: make peers-env"
    for package in (module.split(".")[0], *contestant.packages):
        if package != "scikit-learn" and find_spec(package.replace("-", "_")) is None:
            return f"{package} is not installed: pip install {package}"
    return None
