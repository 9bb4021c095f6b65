"""One model under one policy: ask, learn, count errors, again."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm.active import ActiveLearner

FloatArray = npt.NDArray[np.floating]
Labels = npt.NDArray[Any]


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
