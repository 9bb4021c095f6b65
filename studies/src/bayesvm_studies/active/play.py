"""What a worker does for a task of the study of active learning: deal rows, ask, learn, count errors."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from bayesvm import BayesianSVC
from bayesvm.active import ActiveLearner
from bayesvm_studies.active.plan import EPOCHS_PER_QUERY, EVERYTHING
from bayesvm_studies.statistics import score_sums
from bayesvm_studies.structured.contestants import PAPER_SEED, Indices, split_rows
from bayesvm_studies.structured.measure import build

FloatArray = npt.NDArray[np.floating]
Labels = npt.NDArray[Any]


class Deal(NamedTuple):
    """Rows of a set.

    Attributes
    ----------
    pool : ndarray of int
        The labelled ones first, one of each class.
    n_first : int
        How many those are.
    test : ndarray of int
    """

    pool: Indices
    n_first: int
    test: Indices


def deal(y: npt.NDArray[Any], seed: int, pool_rows: int | None, test_rows: int | None) -> Deal:
    """The rows of one seed, the same for every policy and model.

    The split is that of the paper's protocol for structured data with another
    seed: stratified, a quarter for testing, classes of one row left out.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
    seed : int
    pool_rows, test_rows : int or None
        At most so many, chosen at random; None: all.
    """
    train, test = split_rows("paper", y, PAPER_SEED + seed)
    rng = np.random.default_rng(seed)
    train = rng.permutation(train)
    # The first of each class in random order is a random one of each class.
    _, first = np.unique(y[train], return_index=True)
    others = np.delete(train, first)
    pool = np.concatenate([train[first], others])
    most = len(pool) if pool_rows is None else max(pool_rows, len(first))
    return Deal(pool[:most], len(first), rng.permutation(test)[:test_rows])


class PaperRecipe(BayesianSVC):
    """``BayesianSVC`` that learns from more rows by Adam itself, starting from the last fit.

    Rows must come standardised: the first handful of them says little about
    the scale of the rest. Needs ``warm_start=True``.
    """

    standardize = False

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on with all rows so far; anew while there are fewer rows than inducing points."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight)
        memory = self.memory_
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        rows = np.concatenate([memory.X, X])
        labels = np.concatenate([self.classes_[memory.y], y])
        weights = np.concatenate([memory.weight, weight])
        if len(self.inducing_points_) < int(self.n_inducing):
            del self.model_
            return self.fit(rows, labels, weights)
        epochs, self.max_iter = self.max_iter, EPOCHS_PER_QUERY
        try:
            return self.fit(rows, labels, weights)
        finally:
            self.max_iter = epochs


class Played(NamedTuple):
    """What came of it.

    Attributes
    ----------
    wrong : list of int
        Test errors before the first query and after each.
    asked : list of int
        Rows of the pool in the order of the queries.
    model : classifier
        The last one.
    round_s, test_s : float
        Seconds of choosing rows and learning their labels, and of counting errors.
    """

    wrong: list[int]
    asked: list[int]
    model: Any
    round_s: float
    test_s: float


def play(
    model: Any,
    policy: str,
    pool: tuple[FloatArray, Labels],
    n_first: int,
    test: tuple[FloatArray, Labels],
    n_queries: int,
    seed: int,
) -> Played:
    """Queries one at a time, the model refitted after each; fewer if the pool has no more rows.

    Parameters
    ----------
    model : classifier
    policy : str
    pool, test : (X, y)
    n_first : int
        The first rows of the pool are labelled.
    n_queries : int
    seed : int
        Of choices at random and between equals.
    """
    X, y = pool
    X_test, y_test = test
    wrong: list[int] = []
    test_s = 0.0

    def count(learner: ActiveLearner) -> None:
        nonlocal test_s
        start = time.perf_counter()
        wrong.append(int((learner.estimator_.predict(X_test) != y_test).sum()))
        test_s += time.perf_counter() - start

    start = time.perf_counter()
    learner = ActiveLearner(model, policy, random_state=seed)
    learner.start(X, {row: y[row] for row in range(n_first)})
    first_s = time.perf_counter() - start
    count(learner)
    learner.run(y, n_queries, on_round=count)
    asked = learner.labelled_rows_[n_first:].tolist()
    round_s = first_s + sum(r.seconds for r in learner.history_)
    return Played(wrong, asked, learner.estimator_, round_s, test_s)


_warm: set[str] = set()


def warm_up(config: dict[str, Any]) -> None:
    """A few rounds on thirty irises, once for every kind of model."""
    from sklearn.datasets import load_iris

    arguments = config["arguments"]
    if arguments["estimator"] in _warm:
        return
    _warm.add(arguments["estimator"])
    X, y = load_iris(return_X_y=True)
    rows = np.r_[0, 50, 100, 1:50:6, 51:100:6, 101:150:6]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = X[rows], y[rows].astype(float)
        policy = "random" if arguments["policy"] == EVERYTHING else arguments["policy"]
        play(_built(arguments), policy, pool, 3, pool, 3, seed=0)


def measure(task: dict[str, Any], folder: Path, begin: Callable[[], None]) -> dict[str, Any]:
    """Fields of a :class:`Result`.

    Parameters
    ----------
    task : dict
        A :class:`Task`; ``config["arguments"]["kind"]`` is "play",
        "everything" or "clock".
    folder : Path
        Where ``X.npy`` and ``y.npy`` are.
    begin : callable
        Called when the clock starts.
    """
    arguments = task["config"]["arguments"]
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    begin()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small fits give many
        if arguments["kind"] == "clock":
            return _clock(arguments, X, y)
        return _play(arguments, X, y)


def _play(arguments: dict[str, Any], X: FloatArray, y: npt.NDArray[Any]) -> dict[str, Any]:
    """A model under a policy, or trained on the whole pool."""
    seed = arguments["random_state"]
    dealt = deal(y, seed, arguments["pool_rows"], arguments["test_rows"])
    pool, test = (np.array(X[dealt.pool]), y[dealt.pool]), (np.array(X[dealt.test]), y[dealt.test])
    if arguments["standardised"]:
        mean, std = pool[0].mean(0), pool[0].std(0)
        std[std == 0.0] = 1.0
        pool, test = ((pool[0] - mean) / std, pool[1]), ((test[0] - mean) / std, test[1])
    classes = np.unique(y[np.concatenate([dealt.pool, dealt.test])])
    if arguments["kind"] == EVERYTHING:
        start = time.perf_counter()
        model = _built(arguments).fit(*pool)
        known: dict[str, Any] = {"n_train": len(pool[1]), "fit_s": time.perf_counter() - start, "extra": {}}
    else:
        played = play(
            _built(arguments),
            arguments["policy"],
            pool,
            dealt.n_first,
            test,
            arguments["n_queries"],
            seed,
        )
        model = played.model
        known = {
            "n_train": dealt.n_first + len(played.asked),
            "fit_s": played.round_s,
            "predict_s": played.test_s,
            "extra": {"wrong": played.wrong, "n_pool": len(pool[1])},
        }
    proba = np.zeros((len(test[1]), len(classes)))
    proba[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(test[0])
    sums = score_sums(test[1], proba, classes)
    return {"n_features": X.shape[1], "n_classes": len(classes), **sums, **known}


def _clock(arguments: dict[str, Any], X: FloatArray, y: npt.NDArray[Any]) -> dict[str, Any]:
    """Seconds of rounds of an :class:`ActiveLearner` on the first rows of a set: ask, be told, refit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(arguments["n_threads"])
    try:
        rows = slice(arguments["pool_rows"])
        pool, labels = np.array(X[rows]), y[rows]
        _, first = np.unique(labels, return_index=True)
        learner = ActiveLearner(_built(arguments), arguments["policy"])
        learner.start(pool, {int(i): labels[i] for i in first})
        seconds = []
        for _ in range(arguments["n_rounds"]):
            start = time.perf_counter()
            asked = learner.query()
            learner.tell(asked, labels[asked])
            seconds.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(before)
    return {
        "n_train": len(labels),
        "n_features": X.shape[1],
        "n_classes": len(first),
        "extra": {
            "round_s": [float(f"{s:.4g}") for s in seconds],
            "median_s": float(f"{statistics.median(seconds):.4g}"),
        },
    }


def _built(arguments: dict[str, Any]) -> Any:
    described = {"estimator": arguments["estimator"], "arguments": arguments["model_arguments"]}
    return build(described, random_state=arguments["random_state"])
