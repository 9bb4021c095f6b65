"""Run by a Python whose path holds any version of the library: fits and predicts as it is told.

``honesty_child.py THREADS``. Requests and answers are pickles on standard input and output. Imports nothing
of the studies, which older versions do not have.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import warnings
from typing import Any

import torch
from sklearn.datasets import load_iris

from bayesvm import BayesianSVC

KEPT = ("classes_", "loo_score_", "loo_log_loss_", "inducing_points_", "converged_")


def answer(model: Any, request: str, arrays: tuple[Any, ...]) -> Any:
    """Seconds and attributes of a fit, or class probabilities."""
    if request == "predict_proba":
        return model.predict_proba(*arrays)
    start = time.perf_counter()
    model.fit(*arrays)
    return {"fit_s": time.perf_counter() - start, **{name: getattr(model, name) for name in KEPT}}


def main() -> None:
    """Answer until there is nothing more on standard input."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    BayesianSVC(random_state=0).fit(*load_iris(return_X_y=True))
    model = BayesianSVC(random_state=0)
    pickle.dump("ready", answers)
    answers.flush()
    while True:
        try:
            request, *arrays = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            found = answer(model, request, tuple(arrays))
        except Exception as error:
            found = error
        pickle.dump(found, answers)
        answers.flush()


if __name__ == "__main__":
    main()
