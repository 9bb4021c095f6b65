"""Leave-one-out in closed form against fits without the row, where classes have five rows each.

python -m bayesvm_studies.benchmarks.left_out --json results/benchmarks/left_out.json
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bayesvm import BayesianSVC
from bayesvm_studies.benchmarks.common import command_line, write_json
from bayesvm_studies.benchmarks.scale import few_rows_per_class as rows

N_CLASSES = 60
PER_CLASS = 5
N_REFITS = 60
SPREAD = 0.8


def compared(rivals: str) -> dict[str, Any]:
    """Accuracies of the closed form, of fits without the row, on new rows and on the rows of the fit."""
    X, y = rows(N_CLASSES, PER_CLASS, 1, SPREAD)
    X_new, y_new = rows(N_CLASSES, 50, 2, SPREAD)

    def fitted(some: np.ndarray) -> BayesianSVC:
        model = BayesianSVC(
            random_state=0,
            n_inducing=54,
            hyperparameters="fixed",
            local=False,
            committee=False,
            rivals=rivals,
        )
        return model.fit(X[some], y[some])

    everything = np.ones(len(y), dtype=bool)
    model = fitted(everything)
    left = np.random.default_rng(0).permutation(len(y))[:N_REFITS]
    right = 0
    for i in left:
        others = everything.copy()
        others[i] = False
        right += int(fitted(others).predict(X[[i]])[0] == y[i])
    return {
        "closed_form": float((model.classes_[model.loo_proba_[left].argmax(1)] == y[left]).mean()),
        "refitted": right / N_REFITS,
        "new_rows": float(model.score(X_new, y_new)),
        "rows_of_the_fit": float(model.score(X, y)),
    }


def main() -> None:
    given = command_line(__doc__).parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {rivals: compared(rivals) for rivals in ("exact", "sampled")}
    print(found)
    sizes = {"classes": N_CLASSES, "rows_per_class": PER_CLASS, "refits": N_REFITS}
    write_json(given.json, found, **sizes, spread=SPREAD)


if __name__ == "__main__":
    main()
