"""What a worker does for a task of the experiment on active learning."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm_studies.active.deal import deal
from bayesvm_studies.active.play import play
from bayesvm_studies.active.roster import EVERYTHING
from bayesvm_studies.measure import build
from bayesvm_studies.scoring import score_sums

FloatArray = npt.NDArray[np.floating]
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
        warnings.simplefilter("ignore")  # small fits say much about themselves
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

    from bayesvm.active import ActiveLearner

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
