"""What ``honesty`` measures, one trial at a time: a task, a model, a record.

Tasks have names like noise/100/5/2, rules/sine/200, small/iris, copies/glass, weights/glass,
guarantees/sine/200, pair/iris, busy/digits and cv/iris; the seed goes with them.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import bayesvm
from bayesvm import BayesianSVC
from bayesvm.metrics import accepted_by_confidence
from bayesvm_studies.benchmarks import quality
from bayesvm_studies.benchmarks.common import Record, clusters
from bayesvm_studies.benchmarks.comparison import Key, Split, load_split, measure, warm_up
from bayesvm_studies.benchmarks.kernel_prior import noise, rule
from bayesvm_studies.worker import thread_environment

Array = npt.NDArray[Any]

TEST_ROWS = 20_000
# Of ``guarantees``: rates, level, numbers of calibration rows, draws of them for every fit, coverage.
RATES = (0.02, 0.05, 0.1)
LEVEL = 0.9
CALIBRATION_ROWS = (200, 500, 1000)
CALIBRATION_DRAWS = 10
# Each of these predicts all test rows anew.
SET_DRAWS = 4
COVERAGE = 0.9
# Of ``streamed``: more rows than a fit keeps in memory.
STREAMED_RATES, STREAMED_TEST_ROWS = (0.01, 0.02, 0.05), 200_000
FOLDS = 10
# How often each side of a comparison of times has its turn.
TURNS = 3


class Places(NamedTuple):
    """Where the sets are, and the source of the earlier version, if there is one."""

    sets: Path
    binary: Path
    before: Path | None = None

    def split(self, name: str, seed: int) -> Split:
        """A split of a set that is in one of the folders."""
        return load_split(self.binary if (self.binary / name).is_dir() else self.sets, name, seed)


# --- Models


class PlattSVC(ClassifierMixin, BaseEstimator):
    """``CalibratedClassifierCV(SVC())`` on standardised inputs, with classes of fewer rows than folds too."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit; given as a list, the folds are those of the default, but short classes are not refused."""
        machine = make_pipeline(StandardScaler(), SVC())
        folds = list(StratifiedKFold(5).split(X, y))
        self.model_ = CalibratedClassifierCV(machine, cv=folds).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities of the classes."""
        return np.asarray(self.model_.predict_proba(X))


class Weighted(BayesianSVC):
    """Ours, with weights drawn from the exponential law by its seed."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows with random weights."""
        weight = np.random.default_rng(self.random_state).exponential(size=len(y))
        return super().fit(X, y, sample_weight=weight)


class Child:
    """A process with another version of the library, or another number of threads, until this one ends."""

    def __init__(self, source: Path, threads: int = 1) -> None:
        script = Path(__file__).with_name("honesty_child.py")
        # -P: modules beside the script must not hide others of their names.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(script), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(source), **thread_environment(threads)},
        )
        self._answer()  # imports and a first fit are done

    def ask(self, request: str, *arrays: Array) -> Any:
        """The answer; raises the exception that the other process raised."""
        assert self._process.stdin is not None
        pickle.dump((request, *arrays), self._process.stdin)
        self._process.stdin.flush()
        found = self._answer()
        if isinstance(found, Exception):
            raise found
        return found

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)


@cache
def child(source: Path, threads: int = 1) -> Child:
    """The process of a version; one serves all trials."""
    return Child(source, threads)


class Elsewhere(ClassifierMixin, BaseEstimator):
    """The earlier version, fitted in a process of its own; its times include sending the rows there."""

    def __init__(self, source: Path) -> None:
        self.source = source

    def fit(self, X: Any, y: Any) -> Self:
        """Fit there; the estimates come back as attributes."""
        for name, value in child(self.source).ask("fit", X, y).items():
            setattr(self, name, value)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the model over there."""
        return np.asarray(child(self.source).ask("predict_proba", X))


def _catboost() -> Any:
    forced: dict[str, Any] = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
    return import_module("catboost").CatBoostClassifier(random_seed=0, **forced)


def ours() -> BayesianSVC:
    """The defaults."""
    return BayesianSVC(random_state=0)


MODELS: dict[str, Callable[[], Any]] = {
    "frequencies": lambda: DummyClassifier(strategy="prior"),
    "random_forest": quality.MODELS["random_forest"],
    "catboost": _catboost,
    "svc": PlattSVC,
    "ours": ours,
}


# --- Trials


def measured(places: Places, key: Key) -> Record:
    """Figures of one trial."""
    data, seed, model, _ = key
    part, *given = data.split("/")
    if part == "guarantees":
        return guarantees(given[0], int(given[1]), seed)
    if part == "streamed":
        return streamed(int(given[0]), seed)
    if part == "cv":
        return cross_validated(places.split(given[0], seed))
    if part == "pair":
        assert places.before is not None
        return paired(
            child(Path(bayesvm.__file__).parents[1]), child(places.before), places.split(given[0], seed)
        )
    if part == "busy":
        return beside_a_neighbour(*_timed_rows(given[0]))
    if part == "noise":
        n, d, c = map(int, given)
        split = _split(*noise(n, d, c, seed)[:4])
        return fitted(model, places, split) | constant(split)
    if part == "rules":
        task = rule(given[0], seed, int(given[1]), TEST_ROWS)
        assert task.chance is not None
        known = {"best_log_loss": entropy(task.chance), "best_accuracy": float(task.chance.max(1).mean())}
        return fitted(model, places, _split(*task[:4])) | known
    split = places.split(given[0], seed)
    if part == "copies":
        split = copied(split, seed)
    if part == "weights":
        return measure(Weighted(random_state=seed), split)
    return fitted(model, places, split)


def fitted(model: str, places: Places, split: Split) -> Record:
    """Figures of a model on a split."""
    if model == "before":
        assert places.before is not None
        child(places.before)  # so that its start is not on the clock
        return measure(Elsewhere(places.before), split)
    warm_up(model, MODELS[model])
    found = measure(MODELS[model](), split)
    return found | _estimates_of_frequencies(split.y) if model == "frequencies" else found


def _split(X: Array, y: Array, X_test: Array, y_test: Array) -> Split:
    return Split(X, y, X_test, y_test, np.unique(y))


def constant(split: Split) -> Record:
    """Log-loss of the class frequencies of the training rows."""
    share = np.unique(split.y, return_counts=True)[1] / len(split.y)
    proba = np.tile(share, (len(split.y_test), 1))
    return {"prior_log_loss": float(log_loss(split.y_test, proba, labels=split.classes))}


def _estimates_of_frequencies(y: Array) -> Record:
    """Leave-one-out accuracy and log-loss of the class frequencies."""
    counts = np.unique(y, return_counts=True)[1]
    without = counts - np.eye(len(counts))
    own = np.maximum((counts - 1) / (len(y) - 1), np.finfo(float).eps)
    right = without.argmax(1) == np.arange(len(counts))
    return {
        "loo_score": float(counts @ right / len(y)),
        "loo_log_loss": float(-(counts @ np.log(own)) / len(y)),
    }


def entropy(chance: Array) -> float:
    """Expected log-loss of the truth itself."""
    return float(-(chance * np.log(np.maximum(chance, np.finfo(float).tiny))).sum(1).mean())


def copied(split: Split, seed: int) -> Split:
    """As many rows of each class, drawn with replacement: a third are gone, others there several times."""
    rng = np.random.default_rng(seed)
    drawn = [rng.choice(rows, len(rows)) for c in split.classes if len(rows := np.flatnonzero(split.y == c))]
    rows = np.concatenate(drawn)
    return split._replace(X=split.X[rows], y=split.y[rows])


def cross_validated(split: Split) -> Record:
    """Estimates by ten folds, without rows whose class the other folds do not have."""
    start = time.perf_counter()
    losses: list[float] = []
    right: list[bool] = []
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(split.X, split.y):
        model = ours().fit(split.X[train], split.y[train])
        test = test[np.isin(split.y[test], model.classes_)]
        proba = model.predict_proba(split.X[test])
        label = np.searchsorted(model.classes_, split.y[test])
        own = np.maximum(proba[np.arange(len(test)), label], np.finfo(float).eps)
        losses += (-np.log(own)).tolist()
        right += (proba.argmax(1) == label).tolist()
    return {
        "cv_log_loss": float(np.mean(losses)),
        "cv_score": float(np.mean(right)),
        "cv_rows": len(losses),
        "fit_s": time.perf_counter() - start,
    }


# --- Guarantees


class Given(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose rows are the class probabilities themselves."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    def fit(self, X: Any, y: Any) -> Self:
        """Nothing to learn."""
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X: Any) -> Array:
        """The rows."""
        return np.asarray(X)

    def predict(self, X: Any) -> Array:
        """The most probable classes."""
        return np.asarray(X).argmax(1)


def guarantees(kind: str, n: int, seed: int) -> Record:
    """One fit, and its guarantees with many draws of calibration rows and without any.

    ``abstain`` holds by rate what a threshold that knows the truth would answer, the error of all rows, and
    pairs of answered share and true error, both zero where nothing is answered; ``sets`` holds true
    coverage, mean size, MAPIE's mean size, and that with the favourite in its empty sets.
    """
    most = max(CALIBRATION_ROWS)
    task = rule(kind, seed, n, TEST_ROWS + CALIBRATION_DRAWS * most)
    assert task.chance is not None
    model = ours().fit(task.X, task.y)
    new, chance = task.X_test[:TEST_ROWS], task.chance[:TEST_ROWS]
    proba = model.predict_proba(new)
    confidence, favourite = proba.max(1), proba.argmax(1)
    wrong = 1.0 - chance[np.arange(TEST_ROWS), favourite]
    rest, labels = task.X_test[TEST_ROWS:], task.y_test[TEST_ROWS:].astype(int)
    draws = [slice(i * most, (i + 1) * most) for i in range(CALIBRATION_DRAWS)]

    def answered(threshold: float) -> list[float]:
        kept = confidence >= threshold
        return [float(kept.mean()), float(wrong[kept].mean()) if kept.any() else 0.0]

    def size(sets: Array) -> list[float]:
        return [float((chance * sets).sum(1).mean()), float(sets.sum(1).mean())]

    abstain: Record = {}
    for rate in RATES:
        abstain[str(rate)] = found = {
            "oracle": most_answered(confidence, wrong, rate),
            "error_of_all": float(wrong.mean()),
            "left_out": [answered(model.abstention_threshold(rate))],
        }
        for rows in CALIBRATION_ROWS:
            held = [(rest[draw][:rows], labels[draw][:rows]) for draw in draws]
            found[str(rows)] = [answered(model.abstention_threshold(rate, LEVEL, pair)) for pair in held]
    sets: Record = {"left_out": [size(model.predict_set(new, COVERAGE))]}
    for rows in CALIBRATION_ROWS:
        sets[str(rows)] = each = []
        for draw in draws[:SET_DRAWS]:
            X, y = rest[draw][:rows], labels[draw][:rows]
            theirs = mapie_sets(model.predict_proba(X), y, proba)
            sizes = theirs.sum(1)
            others = [float(sizes.mean()), float(np.maximum(sizes, 1).mean())]
            each.append([*size(model.predict_set(new, COVERAGE, (X, y))), *others])
    return {"abstain": abstain, "sets": sets, "loo_score": float(model.loo_score_)}


def streamed(n: int, seed: int) -> Record:
    """Promises of a fit to more rows than memory keeps, by rows held out and by leave-one-out of a sample.

    Two classes, labels that are wrong the more often the closer a row is to the border, five columns.
    The record is as the one of ``guarantees``, with the rows held out as the only calibration rows.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + n // 4 + STREAMED_TEST_ROWS, 5))
    second = expit(4.0 * (X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3]))
    y = (rng.random(len(X)) < second).astype(int)
    fit, held, new = np.split(np.arange(len(X)), [n, n + n // 4])
    model = BayesianSVC(64, random_state=0).fit(X[fit], y[fit])
    proba = model.predict_proba(X[new])
    confidence = proba.max(1)
    wrong = np.where(proba.argmax(1) == 1, 1.0 - second[new], second[new])

    def answered(threshold: float) -> list[float]:
        kept = confidence >= threshold
        return [float(kept.mean()), float(wrong[kept].mean()) if kept.any() else 0.0]

    return {
        "abstain": {
            str(rate): {
                "oracle": most_answered(confidence, wrong, rate),
                "error_of_all": float(wrong.mean()),
                "left_out": [answered(model.abstention_threshold(rate, LEVEL))],
                "held_out": [answered(model.abstention_threshold(rate, LEVEL, (X[held], y[held])))],
            }
            for rate in STREAMED_RATES
        }
    }


def most_answered(confidence: Array, wrong: Array, rate: float) -> float:
    """Largest share that a threshold on the confidence can answer if the true errors are known."""
    _, mass, errors = accepted_by_confidence(confidence, np.ones(len(wrong)), wrong)
    kept = mass[errors <= rate * mass]
    return float(kept[-1] / len(wrong)) if kept.size else 0.0


def mapie_sets(held: Array, y: Array, proba: Array) -> Array:
    """Sets of MAPIE from the same probabilities."""
    classification = import_module("mapie.classification")
    prefit = Given(proba.shape[1]).fit(held, y)
    referee = classification.SplitConformalClassifier(
        prefit, confidence_level=COVERAGE, conformity_score="lac", prefit=True
    ).conformalize(held, y)
    return np.asarray(referee.predict_set(proba)[1][:, :, 0])


# --- Times


def paired(new: Child, old: Child, split: Split) -> Record:
    """Least seconds of a fit by both versions in turn."""
    seconds: dict[str, list[float]] = {"ours_s": [], "before_s": []}
    for _ in range(TURNS):
        for name, process in (("ours_s", new), ("before_s", old)):
            seconds[name].append(process.ask("fit", split.X, split.y)["fit_s"])
    return {name: min(values) for name, values in seconds.items()}


def beside_a_neighbour(X: Array, y: Array) -> Record:
    """Median seconds of a fit by one thread and by two while another process keeps a core busy."""
    source = Path(bayesvm.__file__).parents[1]
    sides = {"one_thread_s": child(source, 1), "two_threads_s": child(source, 2)}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    with busy_core():
        for _ in range(TURNS):
            for name, side in sides.items():
                seconds[name].append(side.ask("fit", X, y)["fit_s"])
    return {name: float(np.median(values)) for name, values in seconds.items()}


@contextlib.contextmanager
def busy_core() -> Iterator[subprocess.Popen[bytes]]:
    """Within it, another process computes without a pause; it ends with this one, however that ends."""
    program = f"import os\nwhile os.getppid() == {os.getpid()}: sum(range(100_000))"
    neighbour = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield neighbour
    finally:
        neighbour.kill()
        neighbour.wait()


def _timed_rows(name: str) -> tuple[Array, Array]:
    if name == "digits":
        return load_digits(return_X_y=True)
    n = {"clusters": 5000, "few": 150}[name]
    return clusters(n, 20, 5)
