"""One round of active learning on a pool of a million rows: learning from a label and choosing the next row.

Seconds of wall clock and of processor time, medians over rounds, on two
threads. The row chosen is checked against the variation ratios of all rows
once for every number of inducing points, unless ``--no-check`` is given.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from bayesvm import BayesianSVC
from bayesvm.active import ActiveLearner
from bayesvm_studies.benchmarks.common import command_line, use_threads, write_json
from bayesvm_studies.versions import module_digest

BARS = {"round_s": 2.0}


def pool(n_rows: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows in ten columns; the largest of some random functions is the class."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 10))
    return X, (np.tanh(X) @ rng.standard_normal((10, n_classes))).argmax(1)


def rounds(X: np.ndarray, y: np.ndarray, policy: str, n_inducing: int, n: int, start: int) -> dict[str, Any]:
    """Seconds per round after the first, which pays for what any first use costs."""
    model = BayesianSVC(n_inducing=n_inducing, local=False, committee=False, random_state=0)
    learner = ActiveLearner(model, policy).start(X, dict(enumerate(y[:start])), classes=range(y.max() + 1))
    learner.run(y, 1)
    wall, processor = [], []
    for _ in range(n):
        began, used = time.perf_counter(), time.process_time()
        learner.run(y, 1)
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    return {
        "policy": policy,
        "n_inducing": n_inducing,
        "n_labelled": start,
        "round_s": statistics.median(wall),
        "worst_s": max(wall),
        "processor_s": statistics.median(processor),
        "_learner": learner,
    }


def check(learner: ActiveLearner, X: np.ndarray) -> None:
    """The chosen row has the largest variation ratio of all unlabelled ones."""
    ratio = learner.estimator_.variation_ratio(X)
    ratio[learner.labelled_rows_] = -1.0
    row = learner.query()[0]
    assert ratio[row] >= ratio.max() - 1e-12, (row, ratio[row], ratio.max())


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--inducing", type=int, nargs="+", default=[4, 64])
    parser.add_argument("--policies", nargs="+", default=["variation_ratio"])
    parser.add_argument("--labelled", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-check", dest="check", action="store_false")
    options = parser.parse_args()
    use_threads(options.threads)
    X, y = pool(options.rows, options.classes)
    found = []
    for policy in options.policies:
        for n_inducing in options.inducing:
            for start in options.labelled:
                one = rounds(X, y, policy, n_inducing, options.rounds, start)
                learner = one.pop("_learner")
                print(
                    f"{policy:16} {n_inducing:4} inducing points, {start:4} labels: "
                    f"{one['round_s']:.2f} s a round (worst {one['worst_s']:.2f}, "
                    f"processor {one['processor_s']:.2f})",
                    flush=True,
                )
                found.append(one)
                if options.check and policy == "variation_ratio" and start == options.labelled[-1]:
                    check(learner, X)
    mine = [one["round_s"] for one in found if one["policy"] == "variation_ratio"]
    content = {"bars": BARS, "figures": {"round_s": max(mine)} if mine else {}, "rounds": found}
    size = {"rows": options.rows, "classes": options.classes, "threads": options.threads}
    # The version in the environment is that of fits; this measures more.
    write_json(options.json, content, active=module_digest("bayesvm.active"), **size)


if __name__ == "__main__":
    main()
