"""Nominal columns as what they are, as codes that count as numbers, and as one column per level.

Codes are those of the file, whose order often means something, and the same in a random order. One
quarter of every set is for testing, stratified; at most 2000 rows for training. A column with more than
30 levels has no column per level and stays a number there.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder
from threadpoolctl import threadpool_limits

from bayesvm import BayesianSVC
from bayesvm_studies.benchmarks.common import Record, command_line, folder_of_sets, write_json
from bayesvm_studies.benchmarks.comparison import Split, load_split, measure
from bayesvm_studies.datasets import load

SEEDS = (100, 101)
MOST_ROWS = 2000
MOST_LEVELS = 30
# Columns without an order, by set; None: all of them. Sets of two levels only show that these agree.
NOMINAL: dict[str, list[str] | None] = {
    "analcatdata_dmft": ["Gender", "Ethnic"],
    "analcatdata_germangss": ["Time_of_survey", "Region"],
    "churn": ["state", "area code", "phone number", "international plan", "voice mail plan"],
    "cleveland_nominal": None,
    "cmc": ["Wifes_religion", "Wifes_now_working?", "Husbands_occupation", "Media_exposure"],
    "german": [
        *("Status", "Credit-history", "Purpose", "Savings-account", "Personal-status", "Debtors"),
        *("Property", "Installments", "Housing", "Job", "Telephone", "Foreign"),
    ],
    "led7": None,
    "lymphography": None,
    "nursery": None,
    "solar_flare_2": ["largest_spot_size", "spot_distribution", "Activity", "Evolution"],
    "soybean": None,
    "splice": None,
    "titanic": None,
}


def treatments(split: Split, nominal: list[int], seed: int) -> dict[str, tuple[BayesianSVC, Split]]:
    """An estimator and its rows for each treatment, from the positions of the nominal columns."""
    few = [j for j in nominal if len(np.unique(split.X[:, j])) <= MOST_LEVELS]
    one_hot = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    columns = ColumnTransformer([("levels", one_hot, few)], remainder="passthrough").fit(split.X)
    numbers = BayesianSVC(random_state=0)

    def made(of: Callable[[np.ndarray], np.ndarray]) -> Split:
        return split._replace(X=of(split.X), X_test=of(split.X_test))

    rng, both = np.random.default_rng(seed), np.concatenate([split.X, split.X_test])
    orders = {j: (levels := np.unique(both[:, j]), rng.permutation(len(levels))) for j in nominal}

    def shuffled(X: np.ndarray) -> np.ndarray:
        X = X.copy()
        for j, (levels, order) in orders.items():
            X[:, j] = order[np.searchsorted(levels, X[:, j])]
        return X

    return {
        "nominal": (BayesianSVC(categorical_features=nominal, random_state=0), split),
        "codes": (numbers, split),
        "shuffled": (numbers, made(shuffled)),
        "one_hot": (numbers, made(columns.transform)),
    }


def measured(folder: Path, name: str, seed: int) -> list[Record]:
    """One line for each treatment of a split."""
    data, split = load(name, data=folder, download=False), load_split(folder, name, seed)
    split = split._replace(X=split.X[:MOST_ROWS], y=split.y[:MOST_ROWS])
    names = list(data.feature_names)
    nominal = [names.index(name) for name in NOMINAL[name] or names]
    return [
        {"set": name, "seed": seed, "model": label, **measure(model, rows)}
        for label, (model, rows) in treatments(split, nominal, seed).items()
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = command_line(__doc__, "folder of PMLB sets")
    parser.add_argument("sets", nargs="*", help="names of sets; all by default")
    args = parser.parse_args(arguments)
    folder, lines = folder_of_sets(args.data), list[Record]()
    for name in args.sets or [name for name in NOMINAL if (folder / name).is_dir()]:
        for seed in SEEDS:
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore")
                lines += measured(folder, name, seed)
        print(line(name, [record for record in lines if record["set"] == name]), flush=True)
    print(line("mean", lines))
    write_json(args.json, {"results": lines}, seeds=SEEDS)
    return 0


def line(name: str, lines: list[Record]) -> str:
    """Log-loss, accuracy, its leave-one-out estimate and seconds of each treatment."""
    texts = []
    for label in ("nominal", "codes", "shuffled", "one_hot"):
        own = [record for record in lines if record["model"] == label]

        def mean(what: str, own: list[Any] = own) -> float:
            return float(np.mean([record.get(what, np.nan) for record in own]))

        figures = f"{mean('log_loss'):.4f} {mean('accuracy'):.4f} ({mean('loo_log_loss'):.4f})"
        texts.append(f"{label} {figures} {mean('fit_s'):.1f}s")
    return f"{name:22} " + " | ".join(texts)


if __name__ == "__main__":
    sys.exit(main())
