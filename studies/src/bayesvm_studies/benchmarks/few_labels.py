"""How well a model predicts while classes have one or a few labelled rows: with offsets, and by means alone.

    python -m bayesvm_studies.benchmarks.few_labels --data DIR --fewest 0 2 3 5 --json FILE

One labelled row per class, then twelve queries under margin sampling, on six
sets with two splits each, for several numbers of rows that a class must have
to get an offset. A quarter of a minute each on one core.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from bayesvm import BayesianSVC
from bayesvm.active import ActiveLearner
from bayesvm_studies.benchmarks.common import command_line, write_json
from bayesvm_studies.benchmarks.defaults import changed
from bayesvm_studies.datasets import load

SETS = ("vehicle", "segmentation", "vowel", "dermatology", "optdigits", "ecoli")
SPLITS, QUERIES, ROWS = 2, 12, 3000


def accuracies(name: str, split: int, folder: str | None) -> list[tuple[float, float]]:
    """Accuracy on the other half after each query: of ``predict``, and of the largest latent mean."""
    data = load(name, data=folder)
    X, y = np.asarray(data.X, float), np.asarray(data.y)
    order = np.random.default_rng(split).permutation(len(y))[:ROWS]
    half = len(order) // 2
    pool, test = order[:half], order[half:]
    first = {int(np.flatnonzero(y[pool] == c)[0]): c for c in np.unique(y[pool])}
    model = BayesianSVC(n_inducing=4, learn_inducing=True, local=False, committee=False)
    learner = ActiveLearner(model, policy="margin", random_state=split)
    learner.start(X[pool], first)
    found = []
    for _ in range(QUERIES + 1):
        fitted = learner.estimator_
        by_mean = fitted.classes_[fitted.predict_latent(X[test])[0].argmax(1)]
        found.append((float((fitted.predict(X[test]) == y[test]).mean()), float((by_mean == y[test]).mean())))
        rows = learner.query()
        learner.tell(rows, y[pool][rows])
    return found


def main() -> None:
    """Try every number of rows."""
    parser = command_line(__doc__, data="folder of PMLB sets")
    parser.add_argument("--fewest", type=float, nargs="+", default=[5.0])
    options = parser.parse_args()
    found = {}
    for fewest in options.fewest:
        with changed({"FEWEST_OF_CLASS": fewest}):
            found[f"{fewest:g}"] = means = averaged(options.data)
        for query, (predicted, by_mean) in means.items():
            print(f"{fewest:g} rows, {query:2d} queries: predict {predicted:.3f}, largest mean {by_mean:.3f}")
    write_json(options.json, {"accuracy": found})


def averaged(folder: str | None) -> dict[int, list[float]]:
    """Means over sets and splits by the number of queries."""
    sums: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for name in SETS:
        for split in range(SPLITS):
            for query, pair in enumerate(accuracies(name, split, folder)):
                sums[query].append(pair)
    return {query: np.mean(pairs, 0).round(4).tolist() for query, pairs in sums.items()}


if __name__ == "__main__":
    main()
