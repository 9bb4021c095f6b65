"""Which prior keeps kernel learning from fitting noise (eq. 5.9), and what parts of the calibration gain.

On data that judge nothing: noise, sparse and dense rules (seeds from 1000 on) and small sets (splits of seeds
100 to 110). Accuracy and log-loss on other rows (a, l), their leave-one-out estimates (fa, fl), mean
confidence (cf), log-loss of the class frequencies (l0), processor seconds of the fit (t). Trials are appended
one fit at a time, and a stopped run goes on. For figures of another version run this with PYTHONPATH set to
it and ``--prefix`` before the names.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.model_selection import train_test_split

from bayesvm import BayesianSVC
from bayesvm._core import calibration
from bayesvm._fit import defaults, fitting, leave_one_out
from bayesvm.kernels import Anova
from bayesvm_studies import datasets
from bayesvm_studies.benchmarks.common import ROOT, Record, command_line

Array = npt.NDArray[Any]


class Task(NamedTuple):
    """Rows to learn from and rows to judge by; true class probabilities of these, where they are known."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    chance: Array | None = None


def _both(weight: float) -> list[tuple[Any, str, Any]]:
    return [(defaults, name, {"blend": weight}) for name in ("BOUND_WEIGHT", "LEAVE_ONE_OUT_WEIGHT")]


def _as_it_is(F: Any, *_: Any) -> calibration.Calibration:
    return calibration.Calibration(1.0)


# name: (numbers that are other than they are, constructor arguments)
VARIANTS: dict[str, tuple[list[tuple[Any, str, Any]], dict[str, Any]]] = {
    "defaults": ([], {}),
    "kernel as it starts": ([], {"hyperparameters": "fixed"}),
    "RBF alone": ([], {"kernel": "rbf"}),
    "ANOVA alone": ([], {"kernel": "anova"}),
    "no normal scores": ([], {"normal_scores": False}),
    "sum of bound and leave-one-out": (_both(1.0), {}),
    "three quarters of bound and leave-one-out": (_both(0.75), {}),
    "scale .03": ([(Anova, "deviation_scale", 0.03)], {}),
    "scale .1": ([(Anova, "deviation_scale", 0.1)], {}),
    "levels .35": ([(defaults, "LEVEL_SCALE", 0.35)], {}),
    "temperatures from 1/4": ([(calibration, "TEMPERATURES", calibration.TEMPERATURES[12:])], {}),
    "no calibration": ([(leave_one_out, "fit_calibration", _as_it_is)], {}),
    "no spread": ([(calibration, "NATS_PER_LOG_SPREAD", np.inf)], {}),
    "no mixing": ([(calibration, "MOST_MIXED", 0)], {}),
    "no local part": ([(fitting, "fit_local", lambda *_: None)], {}),
    "rows of short classes on other terms": ([(defaults, "SHORT_CLASS", 0.0)], {}),
}

SHAPES = list(itertools.product((100, 200, 400), (5, 20, 50), (2, 3, 5)))
RULES = {
    "sine": 300,
    "quarters": 100,
    "flipped": 200,
    "product": 300,
    "curved": 200,
    "mixed": 200,
    "logit": 150,
}
SETS = [
    "auto",
    "glass",
    "flags",
    "tae",
    "hayes_roth",
    "lymphography",
    "cleveland",
    "cleveland_nominal",
    "iris",
    "wine_recognition",
    "schizo",
    "ecoli",
    "dermatology",
    "cars",
    "cars1",
    "balance_scale",
    "solar_flare_1",
    "new_thyroid",
    "prnn_fglass",
    "calendarDOW",
    "analcatdata_germangss",
    "analcatdata_dmft",
    "collins",
    "satimage:200",
    "dna:300",
    "waveform_40:300",
]


# Two classes: sets that have two, and the largest class of others against the rest.
TWO = [
    "german",
    "titanic:600",
    "churn:800",
    "phoneme:500",
    "spambase:400",
    "vehicle",
    "cmc",
    "yeast:600",
    "wine_quality_red:500",
    "car:400",
    "splice:300",
    "ecoli",
    "solar_flare_2",
    "cleveland",
    "glass",
    "mfeat_morphological:400",
]


def noise(n: int, d: int, c: int, seed: int) -> Task:
    """Labels that have nothing to do with the rows."""
    rng = np.random.default_rng(seed)
    return Task(
        rng.normal(size=(n, d)),
        rng.integers(c, size=n),
        rng.normal(size=(2000, d)),
        rng.integers(c, size=2000),
    )


def rule(kind: str, seed: int, n: int | None = None, n_test: int = 3000) -> Task:
    """Rules of one or two columns among many (the first four), and smooth rules of all."""
    rng = np.random.default_rng(seed)

    def rows(n: int) -> tuple[Array, Array, Array]:
        if kind == "sine":
            X = rng.normal(size=(n, 40))
            return X, *certain((np.sin(2 * X[:, 0]) > 0).astype(int), 2)
        if kind == "quarters":
            X = rng.normal(size=(n, 8))
            return X, *certain(np.digitize(X[:, 3], [-0.67, 0.0, 0.67]), 4)
        if kind == "flipped":
            X = rng.normal(size=(n, 40))
            one = np.where(X[:, 0] > 0, 0.85, 0.15)
            return X, (X[:, 0] > 0) ^ (rng.random(n) < 0.15), np.stack([1 - one, one], 1)
        if kind == "product":
            X = rng.normal(size=(n, 30))
            return X, *certain((X[:, 0] * X[:, 1] > 0).astype(int), 2)
        columns = {"curved": 20, "mixed": 8, "logit": 30}[kind]
        X = rng.normal(size=(n, columns))
        w = np.random.default_rng(seed + 7).normal(size=(columns, 2 if kind == "curved" else 3))
        if kind == "curved":
            return X, *certain((np.sin(X @ w[:, 0] / 3) + X @ w[:, 1] / 3 > 0).astype(int), 2)
        score = X @ w / 1.5 + np.sin(2 * X[:, :3]) if kind == "mixed" else X @ w / 2
        return X, (score + rng.gumbel(size=(n, 3))).argmax(1), softmax(score, axis=1)

    X, y, _ = rows(n or RULES[kind])
    return Task(X, y, *rows(n_test))


def certain(y: Array, n_classes: int) -> tuple[Array, Array]:
    """Labels without noise, and the probabilities of all classes."""
    return y, np.eye(n_classes)[y]


def split(name: str, seed: int, data: str | None, two: bool = False) -> Task:
    """Three quarters of a set, or as many rows as its name says after a colon, against others.

    ``two``: its largest class against the rest.
    """
    name, _, n = name.partition(":")
    found = datasets.load(name, data=data)
    X, y = np.asarray(found.X, dtype=float), np.asarray(found.y)
    if two:
        values, counts = np.unique(y, return_counts=True)
        y = (y == values[counts.argmax()]).astype(int)
    sizes: dict[str, Any] = (
        {"train_size": int(n), "test_size": min(2000, len(y) - int(n))} if n else {"test_size": 0.25}
    )
    X, X_test, y, y_test = train_test_split(X, y, random_state=seed, stratify=y, **sizes)
    return Task(X, y, X_test, y_test)


def task_of(case: str, data: str | None) -> Task:
    """The rows that a name like noise/100/5/2/1100, rule/sine/1102 or two/german/104 stands for."""
    kind, *given, seed = case.split("/")
    if kind == "noise":
        n, d, c = map(int, given)
        return noise(n, d, c, int(seed))
    return rule(given[0], int(seed)) if kind == "rule" else split(given[0], int(seed), data, kind == "two")


def measure(variant: str, task: Task) -> Record:
    """One fit of a variant."""
    patches, arguments = VARIANTS[variant]
    with contextlib.ExitStack() as stack:
        for where, name, value in patches:
            value = {**getattr(where, name), **value} if isinstance(value, dict) else value
            stack.enter_context(mock.patch.object(where, name, value))
        start = time.process_time()
        model = BayesianSVC(random_state=0, **arguments).fit(task.X, task.y)
        seconds = time.process_time() - start
    proba = model.predict_proba(task.X_test)
    label = np.searchsorted(model.classes_, task.y_test)
    share = np.bincount(np.searchsorted(model.classes_, task.y)) / len(task.y)
    own = np.maximum(proba[np.arange(len(label)), label], np.finfo(float).tiny)
    figures = {
        "a": np.mean(proba.argmax(1) == label),
        "l": -np.log(own).mean(),
        "fa": model.loo_score_,
        "fl": model.loo_log_loss_,
        "cf": proba.max(1).mean(),
        "l0": -np.log(share[label]).mean(),
        "t": seconds,
    }
    return {name: round(float(value), 4) for name, value in figures.items()}


def cases(draws: int, seed: int) -> Iterator[str]:
    """Names of all tasks: noise and rules of their own seeds, splits of shared ones."""
    for draw in range(draws):
        for i, (n, d, c) in enumerate(SHAPES):
            yield f"noise/{n}/{d}/{c}/{1000 + len(SHAPES) * draw + i}"
        yield from (f"rule/{kind}/{1000 + draw}" for kind in RULES)
        yield from (f"real/{name}/{seed + draw}" for name in SETS)
        yield from (f"two/{name}/{seed + draw}" for name in TWO)


def print_table(trials: dict[tuple[str, str], Record]) -> None:
    """Means per variant over what all of them ran."""
    variants = list(dict.fromkeys(v for v, _ in trials))
    common = [c for c in dict.fromkeys(c for _, c in trials) if all((v, c) in trials for v in variants)]
    columns = ("a", "l", "l - fl", "fa - a", "cf - a", "l - l0", "t")
    print("| variant | data | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 2) + "|")
    for v, kind in itertools.product(variants, ("noise", "rule", "real", "two")):
        rows = [trials[v, c] for c in common if c.startswith(kind)]
        figures = []
        for column in columns if rows else ():
            plus, _, minus = column.partition(" - ")
            figures.append(np.mean([r[plus] - (r[minus] if minus else 0.0) for r in rows]))
        print(f"| {v} | {kind}, {len(rows)} | " + " | ".join(f"{x:.4f}" for x in figures) + " |")


def main() -> None:
    parser = command_line(__doc__, data="folder of PMLB sets (else BAYESVM_DATA)")
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=["defaults"])
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--seed", type=int, choices=range(100, 111), default=100, help="of the first split")
    parser.add_argument("--prefix", default="", help="before the names of variants, for another version")
    parser.add_argument("--trials", type=Path, default=ROOT / "results" / "trials" / "kernel_prior.jsonl")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = arguments.trials.read_text().splitlines() if arguments.trials.exists() else []
    trials: dict[tuple[str, str], Record] = {(r["v"], r["c"]): r for r in map(json.loads, lines)}
    arguments.trials.parent.mkdir(parents=True, exist_ok=True)
    wanted = list(itertools.product(arguments.variants, cases(arguments.draws, arguments.seed)))
    with arguments.trials.open("a") as file:
        for variant, case in wanted:
            key = arguments.prefix + variant, case
            if key not in trials:
                record = measure(variant, task_of(case, arguments.data))
                trials[key] = {"v": key[0], "c": case, **record}
                file.write(json.dumps(trials[key], separators=(",", ":")) + "\n")
                file.flush()
    run = {(arguments.prefix + variant, case) for variant, case in wanted}
    print_table({key: trials[key] for key in trials if key in run})


if __name__ == "__main__":
    main()
