"""Which defaults to take: variations of them on splits that judge nothing.

Each variation changes one number of the library's defaults or one constructor
argument. Results are appended one fit at a time and a stopped run goes on.
docs/defaults.md says what was concluded; split 42 is kept for quality.py.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from bayesvm import BayesianSVC
from bayesvm._core import calibration
from bayesvm._fit import defaults
from bayesvm.kernels import RBF, Anova, Scaled, Sum
from bayesvm_studies.benchmarks.common import ROOT, Record, command_line, folder_of_sets, source_version
from bayesvm_studies.benchmarks.comparison import fit_to_set, read_results, run_missing, small_sets

# Where numbers to vary are kept.
MODULES = (defaults, calibration)


# Exact rivals may cost so many times what they may by default.
_MORE = 4.0


def _sizes(inducing: int, learning_rows: int, learning_inducing: int, more: float = _MORE) -> dict[str, Any]:
    """The same sizes for data of any size, affordable or not."""
    return {
        "SIZES": {0: defaults.Sizes(inducing, learning_rows, learning_inducing)},
        "EXACT_FLOPS": more * defaults.EXACT_FLOPS,
    }


# name: (numbers of MODULES, constructor arguments)
VARIATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": ({}, {}),
    "rbf alone": ({}, {"kernel": "rbf"}),
    "rbf + anova + linear": ({}, {"kernel": "0.1*rbf + anova + linear"}),
    "shorter length scales": (
        {},
        {"kernel": Sum((Scaled(RBF(length_scale=0.7), 0.1), Anova(length_scale=0.7)))},
    ),
    "larger variances": ({}, {"kernel": "0.2*rbf + 2*anova"}),
    "bound alone": ({}, {"hyperparameters": "elbo"}),
    "leave-one-out alone": ({}, {"hyperparameters": "loo"}),
    "half the leave-one-out": ({"LEAVE_ONE_OUT_WEIGHT": {"blend": 0.25}}, {}),
    "twice the leave-one-out": ({"LEAVE_ONE_OUT_WEIGHT": {"blend": 1.0}}, {}),
    "60 steps": ({"LEARNING_STEPS": 60}, {}),
    "40 steps at .35": ({"LEARNING_STEPS": 40, "LEARNING_RATE": 0.35}, {}),
    "30 steps at .35": ({"LEARNING_STEPS": 30, "LEARNING_RATE": 0.35}, {}),
    "30 steps at .5": ({"LEARNING_STEPS": 30, "LEARNING_RATE": 0.5}, {}),
    "25 steps at .35": ({"LEARNING_STEPS": 25, "LEARNING_RATE": 0.35}, {}),
    "25 steps at .5": ({"LEARNING_STEPS": 25, "LEARNING_RATE": 0.5}, {}),
    "20 steps at .5": ({"LEARNING_STEPS": 20, "LEARNING_RATE": 0.5}, {}),
    "level scale 1": ({"LEVEL_SCALE": 1.0}, {}),
    "levels without prior": ({"LEVEL_SCALE": 1e3}, {}),
    "learn with 64 points": (_sizes(512, 1000, 64), {}),
    "64 points": ({}, {"n_inducing": 64}),
    "128 points": ({}, {"n_inducing": 128}),
    "256 points, learn on 1000 rows with 192 points": (_sizes(256, 1000, 192), {}),
    "256 points, learn on 2000 rows with 384 points": (_sizes(256, 2000, 384), {}),
    "512 points, learn on 1000 rows with 192 points": (_sizes(512, 1000, 192), {}),
    "512 points, learn on 2000 rows with 256 points": (_sizes(512, 2000, 256), {}),
    "512 points, learn on 2000 rows with 384 points": (_sizes(512, 2000, 384), {}),
    "512 points, learn on 4000 rows with 384 points": (_sizes(512, 4000, 384), {}),
    "1024 points, learn on 2000 rows with 384 points": (_sizes(1024, 2000, 384), {}),
    "256 points, learn on 3000 rows with 256 points": (_sizes(256, 3000, 256), {}),
    "384 points, learn on 2000 rows with 384 points": (_sizes(384, 2000, 384), {}),
    "512 points, learn on 3000 rows with 512 points": (_sizes(512, 3000, 512), {}),
    "768 points, learn on 3000 rows with 512 points": (_sizes(768, 3000, 512), {}),
    "1024 points, learn on 4000 rows with 768 points": (_sizes(1024, 4000, 768), {}),
    "exact rivals for 4 times as much": ({"EXACT_FLOPS": _MORE * defaults.EXACT_FLOPS}, {}),
    "exact rivals for 16 times as much": ({"EXACT_FLOPS": 16 * defaults.EXACT_FLOPS}, {}),
    "1024 points, learn on 4000 rows with 512 points": (_sizes(1024, 4000, 512), {}),
    "learn in double": ({"LEARNING_DTYPE": torch.float64}, {}),
    "learn the points": ({}, {"n_inducing": 128, "learn_inducing": True}),
    "sampled rivals": ({}, {"rivals": "sampled"}),
    "mean rivals": ({}, {"rivals": "mean"}),
}


@contextlib.contextmanager
def changed(numbers: dict[str, Any]) -> Iterator[None]:
    """Within it, these numbers of ``MODULES`` have other values."""
    with contextlib.ExitStack() as stack:
        for name, value in numbers.items():
            module = next(module for module in MODULES if hasattr(module, name))
            stack.enter_context(mock.patch.object(module, name, value))
        yield


class Variation:
    """BayesianSVC with other defaults while it is fitted."""

    def __init__(self, numbers: dict[str, Any], arguments: dict[str, Any]) -> None:
        self.numbers, self.arguments = numbers, arguments

    def fit(self, X: np.ndarray, y: np.ndarray) -> BayesianSVC:
        """A fitted estimator."""
        with changed(self.numbers):
            return BayesianSVC(random_state=0, **self.arguments).fit(X, y)


MODELS: dict[str, Callable[[], Variation]] = {
    name: partial(Variation, *settings) for name, settings in VARIATIONS.items()
}


def print_table(records: list[Record]) -> None:
    """Means per variation over what all of them ran, and differences from the first in standard errors."""
    models = list(dict.fromkeys(r["model"] for r in records))
    by = {(r["data"], r["split"], r["model"]): r for r in records}
    tasks = {(d, s) for d, s, _ in by}
    common = [t for t in sorted(tasks) if all((*t, m) in by for m in models)]
    print(f"{len(common)} splits of data\n")
    print("| variation | accuracy | log-loss | LOO log-loss | difference of log-loss / s.e. |")
    print("|---|---|---|---|---|")
    first = np.array([by[(*t, models[0])]["log_loss"] for t in common])
    for m in models:
        own = [by[(*t, m)] for t in common]
        mean = {k: np.mean([r[k] for r in own]) for k in ("accuracy", "log_loss", "loo_log_loss")}
        gaps = np.array([r["log_loss"] for r in own]) - first
        z = f"{gaps.mean() / (gaps.std() / np.sqrt(len(gaps))):+.1f}" if gaps.any() else ""
        print(f"| {m} | {mean['accuracy']:.4f} | {mean['log_loss']:.4f} | {mean['loo_log_loss']:.4f} | {z} |")


# Training rows from which a set is in another line of the curve.
BANDS = (0, 1_500, 5_000, 100_000)


def print_curve(records: list[Record]) -> None:
    """Log-loss and seconds over those of the defaults, by numbers of training rows and classes."""
    by = {(r["data"], r["split"], r["model"]): r for r in records}
    print("| rows | classes | variation | fits | log-loss over the defaults' | seconds over theirs |")
    print("|---|---|---|---|---|---|")
    for low, high in itertools.pairwise(BANDS):
        for few, classes in ((True, "two"), (False, "more")):
            for model in dict.fromkeys(r["model"] for r in records):
                pairs = [
                    (r, by[r["data"], r["split"], "defaults"])
                    for r in records
                    if r["model"] == model and low <= r["n_train"] < high and (r["n_classes"] == 2) == few
                    if (r["data"], r["split"], "defaults") in by
                ]
                if not pairs or model == "defaults":
                    continue
                loss, seconds = (
                    np.exp(np.mean([np.log(r[key] / base[key]) for r, base in pairs]))
                    for key in ("log_loss", "fit_s")
                )
                rows = f"{low} to {high}"
                print(f"| {rows} | {classes} | {model} | {len(pairs)} | {loss:.3f} | {seconds:.2f} |")


def main() -> None:
    parser = command_line(__doc__, data="folder of PMLB sets (else BAYESVM_DATA)")
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--variations", nargs="+", choices=list(VARIATIONS), default=list(VARIATIONS))
    parser.add_argument("--subset", nargs="+", metavar="NAME", help="only these sets")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "defaults" / "runs.jsonl")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only print the table of earlier results")
    parser.add_argument("--curve", type=Path, metavar="FILE", help="only print log-loss against time")
    arguments = parser.parse_args()
    if arguments.curve:
        print_curve(list(read_results(arguments.curve).values()))
        return
    if arguments.table:
        print_table(list(read_results(arguments.table).values()))
        return
    if 42 in arguments.splits:
        parser.error("split 42 judges the defaults; choose them on others")
    folder, version = folder_of_sets(arguments.data), source_version()
    names = arguments.subset or small_sets(folder)
    keys = [(n, s, v, version) for s in arguments.splits for v in arguments.variations for n in names]
    found = run_missing(partial(fit_to_set, "defaults", folder), keys, arguments.results, arguments.jobs)
    print_table([record for record in found.values() if "error" not in record])


if __name__ == "__main__":
    main()
