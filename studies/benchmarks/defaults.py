"""Which defaults to take: variations of them on splits that judge nothing.

Each variation changes one number of ``bayesvm._fit.defaults`` or of the calibration, or one constructor
argument. Results are appended one fit at a time and a stopped run goes on.
docs/defaults.md says what was concluded; split 42 is kept for quality.py.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _common import ROOT, environment, source_version
from _contest import Record, data_folder, load_split, read_results, small_sets
from sklearn.metrics import log_loss

from bayesvm import BayesianSVC
from bayesvm._core import calibration
from bayesvm._fit import defaults
from bayesvm.kernels import RBF, AdditiveRBF, Linear, Sum
from bayesvm_studies.store import unpack_lines


def _sizes(inducing: int, learning_rows: int, learning_inducing: int) -> dict[str, Any]:
    """The same sizes for data of any size."""
    return {"SIZES": {0: defaults.Sizes(inducing, learning_rows, learning_inducing)}}


# name: (numbers of bayesvm._fit.defaults, constructor arguments)
VARIATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": ({}, {}),
    "rbf alone": ({}, {"kernel": "rbf"}),
    "rbf + additive + linear": ({}, {"kernel": Sum((RBF(), AdditiveRBF(), Linear()))}),
    "shorter length scales": ({}, {"kernel": Sum((RBF(length_scale=0.7), AdditiveRBF(length_scale=0.7)))}),
    "larger variances": ({}, {"kernel": Sum((RBF(variance=2.0), AdditiveRBF(variance=2.0)))}),
    "bound alone": ({}, {"hyperparameters": "elbo"}),
    "leave-one-out alone": ({}, {"hyperparameters": "loo"}),
    "half the leave-one-out": ({"LEAVE_ONE_OUT_WEIGHT": {"blend": 0.5}}, {}),
    "twice the leave-one-out": ({"LEAVE_ONE_OUT_WEIGHT": {"blend": 2.0}}, {}),
    "60 steps": ({"LEARNING_STEPS": 60}, {}),
    "40 steps at .35": ({"LEARNING_STEPS": 40, "LEARNING_RATE": 0.35}, {}),
    "30 steps at .35": ({"LEARNING_STEPS": 30, "LEARNING_RATE": 0.35}, {}),
    "30 steps at .5": ({"LEARNING_STEPS": 30, "LEARNING_RATE": 0.5}, {}),
    "25 steps at .35": ({"LEARNING_STEPS": 25, "LEARNING_RATE": 0.35}, {}),
    "25 steps at .5": ({"LEARNING_STEPS": 25, "LEARNING_RATE": 0.5}, {}),
    "20 steps at .5": ({"LEARNING_STEPS": 20, "LEARNING_RATE": 0.5}, {}),
    "no class offsets": ({"OFFSET_PRECISION": 1e12}, {}),
    "class offsets, precision 4": ({"OFFSET_PRECISION": 4.0}, {}),
    "class offsets, precision .25": ({"OFFSET_PRECISION": 0.25}, {}),
    "prior scale 1": ({"PRIOR_SCALE": 1.0}, {}),
    "no prior": ({"PRIOR_SCALE": 1e3}, {}),
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
    "1024 points, learn on 4000 rows with 512 points": (_sizes(1024, 4000, 512), {}),
    "learn in double": ({"LEARNING_DTYPE": torch.float64}, {}),
    "learn the points": ({}, {"n_inducing": 128, "learn_inducing": True}),
    "sampled rivals": ({}, {"rivals": "sampled"}),
    "mean rivals": ({}, {"rivals": "mean"}),
}
_ORIGINAL = {
    name: (module, getattr(module, name))
    for module in (calibration, defaults)
    for name in dir(module)
    if name.isupper()
}


def run_task(folder: Path, data: str, seed: int, variation: str, version: str) -> Record:
    """A record of one fit of one variation."""
    torch.set_num_threads(1)
    numbers, arguments = VARIATIONS[variation]
    for name, (module, value) in _ORIGINAL.items():
        setattr(module, name, numbers.get(name, value))
    split = load_split(folder, data, seed)
    record: Record = {"data": data, "split": seed, "model": variation, "version": version}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = BayesianSVC(random_state=0, **arguments).fit(split.X, split.y)
        record["fit_s"] = time.process_time() - start
    proba = model.predict_proba(split.X_test)
    return record | {
        "accuracy": float((model.classes_[proba.argmax(1)] == split.y_test).mean()),
        "log_loss": float(log_loss(split.y_test, proba, labels=model.classes_)),
        "loo_score": model.loo_score_,
        "loo_log_loss": model.loo_log_loss_,
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", metavar="DIR", help="folder of PMLB sets (else BAYESVM_DATA)")
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--variations", nargs="+", choices=list(VARIATIONS), default=list(VARIATIONS))
    parser.add_argument("--subset", nargs="+", metavar="NAME", help="only these sets")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "defaults" / "runs.jsonl")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only print the table of earlier results")
    arguments = parser.parse_args()
    if arguments.table:
        print_table(list(read_results(arguments.table).values()))
        return
    if 42 in arguments.splits:
        parser.error("split 42 judges the defaults; choose them on others")
    folder, version = data_folder(arguments.data), source_version()
    names = arguments.subset or small_sets(folder)
    done = read_results(arguments.results)
    wanted = [(n, s, v, version) for s in arguments.splits for v in arguments.variations for n in names]
    todo = [(folder, *key) for key in wanted if key not in done]
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    unpack_lines(arguments.results)
    with (
        arguments.results.open("a") as file,
        ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        for i, future in enumerate(as_completed([pool.submit(run_task, *task) for task in todo]), 1):
            record = future.result() | {"environment": environment() if i == 1 else None}
            file.write(json.dumps(record) + "\n")
            file.flush()
            done[record["data"], record["split"], record["model"], version] = record
            print(f"{i}/{len(todo)} {record['data']} {record['model']}", flush=True)
    print_table([done[key] for key in wanted])


if __name__ == "__main__":
    main()
