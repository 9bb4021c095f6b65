"""Classes of two, three and four rows: should their rivals lose as much in leave-one-out (eq. 5.8)?

Log-loss and accuracy on the other rows, mean over seeds, for several sizes below which a class
counts as short; zero: never. docs/defaults.md says what was concluded.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from bayesvm import BayesianSVC
from bayesvm_studies import datasets
from bayesvm_studies.benchmarks.common import command_line, write_json
from bayesvm_studies.benchmarks.defaults import changed

SETS = (
    "digits",
    "iris",
    "wine_recognition",
    "vehicle",
    "segmentation",
    "satimage",
    "vowel",
    "texture",
    "letter",
)
ROWS = (2, 3, 4)
BELOW = (0, 3, 4, 5)
MOST_TEST_ROWS = 1500


def load(name: str, data: str | None) -> tuple[np.ndarray, np.ndarray]:
    if name == "digits":
        return load_digits(return_X_y=True)
    found = datasets.load(name, data=data)
    return np.asarray(found.X, dtype=float), np.asarray(found.y)


def measure(X: np.ndarray, y: np.ndarray, per_class: int, seeds: int) -> dict[str, float]:
    """Mean log-loss and accuracy of a default fit to that many rows of every class."""
    losses, right = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        members = [np.flatnonzero(y == c) for c in np.unique(y)]
        train = np.concatenate([rng.choice(m, min(per_class, len(m) - 1), replace=False) for m in members])
        rest = np.setdiff1d(np.arange(len(y)), train)
        test = rng.choice(rest, min(MOST_TEST_ROWS, len(rest)), replace=False)
        model = BayesianSVC(random_state=0).fit(X[train], y[train])
        proba = model.predict_proba(X[test])
        losses.append(log_loss(y[test], proba, labels=model.classes_))
        right.append(np.mean(model.classes_[proba.argmax(1)] == y[test]))
    return {"log_loss": round(float(np.mean(losses)), 4), "accuracy": round(float(np.mean(right)), 4)}


def main() -> None:
    parser = command_line(__doc__, data="folder of PMLB sets")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    figures: dict[str, Any] = {}
    for name in SETS:
        X, y = load(name, arguments.data)
        for rows in ROWS:
            for below in BELOW:
                with changed({"SHORT_CLASS": float(below)}):
                    found = measure(X, y, rows, arguments.seeds)
                figures[f"{name}, {rows} rows, short below {below}"] = found
            line = {b: figures[f"{name}, {rows} rows, short below {b}"]["log_loss"] for b in BELOW}
            print(f"{name:<18}{rows} rows a class: log-loss {line}", flush=True)
    write_json(arguments.json, figures, seeds=arguments.seeds)


if __name__ == "__main__":
    main()
