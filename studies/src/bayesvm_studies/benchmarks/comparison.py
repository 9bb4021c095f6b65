"""Fits of many models to many PMLB sets, one line of a file each, and a table of them.

A run that was stopped goes on where it stopped; what changed is measured anew.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from bayesvm.metrics import expected_calibration_error
from bayesvm_studies.benchmarks.common import (
    RESULTS,
    Record,
    command_line,
    folder_of_sets,
    write_json,
)
from bayesvm_studies.datasets import load
from bayesvm_studies.results import read_lines, unpack_lines

MAX_BYTES = 150_000
# Set, seed of the split, model, and the version that must be unchanged for an old result to count.
Key = tuple[str, int, str, str]


class Split(NamedTuple):
    """Training and test rows of one set, and all its classes."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    classes: np.ndarray


def small_sets(folder: Path) -> list[str]:
    """Names of the sets whose file is under 150 kB."""
    files = (path / f"{path.name}.tsv.gz" for path in folder.iterdir() if path.is_dir())
    return sorted(f.parent.name for f in files if f.is_file() and f.stat().st_size < MAX_BYTES)


def load_split(folder: Path, name: str, seed: int) -> Split:
    """One quarter for testing, stratified, without the classes that have one row."""
    data = load(name, data=folder, download=False)
    classes, index, counts = np.unique(data.y, return_inverse=True, return_counts=True)
    kept = counts[index] > 1
    X, y = data.X[kept], data.y[kept]
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
    return Split(X_train, y_train, X_test, y_test, classes[counts > 1])


def _models(module: str) -> dict[str, Callable[[], Any]]:
    """What a module of this package calls ``MODELS``; run as a command, it is known as __main__ as well."""
    found: dict[str, Callable[[], Any]] = import_module(f"bayesvm_studies.benchmarks.{module}").MODELS
    return found


def measure(model: Any, split: Split) -> Record:
    """Fit, predict and score one model on one split."""
    start = time.perf_counter()
    fitted = model.fit(split.X, split.y)
    middle = time.perf_counter()
    predicted = fitted.predict_proba(split.X_test)
    end = time.perf_counter()
    proba = np.zeros((len(split.y_test), len(split.classes)))
    proba[:, np.searchsorted(split.classes, fitted.classes_)] = predicted
    correct = split.classes[proba.argmax(1)] == split.y_test
    result = {
        "accuracy": float(correct.mean()),
        "log_loss": float(log_loss(split.y_test, proba, labels=split.classes)),
        "ece": expected_calibration_error(split.y_test, proba, labels=split.classes, n_bins=15),
        "confidence": float(proba.max(1).mean()),
        "fit_s": middle - start,
        "predict_s": end - middle,
        "n_train": len(split.y),
        "n_features": split.X.shape[1],
        "n_classes": len(split.classes),
    }
    if hasattr(fitted, "loo_score_"):
        result |= {
            "loo_score": float(fitted.loo_score_),
            "loo_log_loss": float(fitted.loo_log_loss_),
            "n_inducing": len(fitted.inducing_points_),
            "converged": bool(fitted.converged_),
        }
    return result


_warm: set[str] = set()


def fit_to_set(module: str, folder: Path, key: Key) -> Record:
    """Figures of one fit of a comparison."""
    data, seed, model, _ = key
    make = _models(module)[model]
    warm_up(model, make)
    return measure(make(), load_split(folder, data, seed))


def warm_up(model: str, make: Callable[[], Any]) -> None:
    """A first fit, once a process: what is imported or compiled at first use is not part of a fit."""
    if model not in _warm:
        make().fit(*load_iris(return_X_y=True))
        _warm.add(model)


def run_task(measured: Callable[[Key], Record], key: Key) -> Record:
    """The record of one key on one thread; an error becomes part of it."""
    torch.set_num_threads(1)
    data, seed, model, version = key
    record: Record = {"data": data, "split": seed, "model": model, "version": version}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            record |= measured(key)
        except Exception as error:
            record["error"] = f"{type(error).__name__}: {error}"
    return record


def _records(measured: Callable[[Key], Record], keys: list[Key], jobs: int) -> Iterable[Record]:
    """Records as they come, from this process or from several."""
    if jobs == 1:
        yield from (run_task(measured, key) for key in keys)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run_task, measured, key) for key in keys]):
            yield future.result()


def run_missing(
    measured: Callable[[Key], Record], keys: list[Key], results: Path, jobs: int
) -> dict[Key, Record]:
    """Records of all keys: those in the file, and the others measured and added to it."""
    done = read_results(results)
    todo = [key for key in keys if key not in done or "error" in done[key]]
    print(f"{len(keys) - len(todo)} records known, {len(todo)} to do", file=sys.stderr)
    results.parent.mkdir(parents=True, exist_ok=True)
    if todo:
        unpack_lines(results)
        with results.open("a") as file:
            for i, record in enumerate(_records(measured, todo, jobs), 1):
                record["jobs"] = jobs
                file.write(json.dumps(record) + "\n")
                file.flush()
                done[_key(record)] = record
                task = f"{i:>4}/{len(todo)}  {record['data']:<26} {record['model']:<24}"
                print(task, outcome(record), file=sys.stderr, flush=True)
    return {key: done[key] for key in keys}


def _key(record: Record) -> Key:
    return record["data"], record["split"], record["model"], record["version"]


def read_results(path: Path) -> dict[Key, Record]:
    """Earlier records; the last of equal ones counts."""
    lines = read_lines(path).decode().splitlines()
    return {_key(record): record for record in (json.loads(line) for line in lines if line.endswith("}"))}


_METRICS = {"accuracy": -1.0, "log_loss": 1.0, "ece": 1.0}  # sign that makes small good


def summarise(records: dict[tuple[str, str], Record], names: list[str], models: list[str]) -> Record:
    """Means over the sets on which every model succeeded, and mean ranks among the models."""
    common = [n for n in names if all("error" not in records[n, m] for m in models)]
    if not common:
        return {}
    table = {k: np.array([[records[n, m][k] for m in models] for n in common]) for k in (*_METRICS, "fit_s")}
    ranks = {k: rankdata(sign * table[k], axis=1).mean(0) for k, sign in _METRICS.items()}
    return {
        m: {
            **{k: float(table[k][:, i].mean()) for k in _METRICS},
            "median_fit_s": float(np.median(table["fit_s"][:, i])),
            **{f"rank_{k}": float(ranks[k][i]) for k in _METRICS},
            "n_sets": len(common),
            "n_failed": sum("error" in records[n, m] for n in names),
        }
        for i, m in enumerate(models)
    }


def print_summary(summary: Record, records: dict[tuple[str, str], Record], names: list[str]) -> None:
    failed = [r for r in records.values() if "error" in r]
    for r in failed:
        print(f"FAILED: {r['model']} on {r['data']}: {r['error']}")
    if failed:
        print(f"\n{len(failed)} FITS FAILED; means leave those sets out for every model\n")
    heads = ("accuracy", "log-loss", "ECE", "fit s", "rank acc", "rank ll", "rank ECE", "failed")
    print(f"{'model':<24}" + "".join(f"{h:>10}" for h in heads))
    for model, row in summary.items():
        keys = ("accuracy", "log_loss", "ece", "median_fit_s", "rank_accuracy", "rank_log_loss", "rank_ece")
        print(f"{model:<24}" + "".join(f"{row[k]:>10.3f}" for k in keys) + f"{row['n_failed']:>10}")
    ours = [r for n in names if (r := records.get((n, "bayesvm"), {"error": ""})) and "error" not in r]
    if ours:
        mean = {k: np.mean([r[k] for r in ours]) for k in ("loo_score", "loo_log_loss")}
        unconverged = [r["data"] for r in ours if not r["converged"]]
        print(
            f"\nbayesvm's own leave-one-out estimates: accuracy {mean['loo_score']:.3f}, "
            f"log-loss {mean['loo_log_loss']:.3f}; not converged: {', '.join(unconverged) or 'none'}"
        )


def outcome(record: Record) -> str:
    """A record in a few words."""
    if "error" in record:
        return f"FAILED: {record['error']}"
    scores = "accuracy {accuracy:.3f}  log-loss {log_loss:.3f}  {fit_s:.2f} s"
    return scores.format(**record) if "log_loss" in record else "done"


def run(
    module: str,
    sets_of: Callable[[Path], list[str]],
    split: int,
    version_of: Callable[[str], str],
    doc: str | None,
) -> int:
    """The command line of a comparison: run what is not known, print the table, write it.

    Parameters
    ----------
    module : str
        Of this package, which defines ``MODELS``: from a name to a function that makes an estimator.
    sets_of : callable
        From the folder of sets to the names of those that take part.
    split : int
        ``random_state`` of the split.
    version_of : callable
        From a model's name to what must be unchanged for an old result to count.
    doc : str or None
        Of the module.
    """
    models = _models(module)
    parser = command_line(doc, data="folder of PMLB sets (else BAYESVM_DATA)")
    parser.add_argument("--split", type=int, default=split, help="random_state of the split")
    parser.add_argument("--models", nargs="+", choices=list(models), default=list(models))
    parser.add_argument("--subset", nargs="+", metavar="NAME", help="only these sets")
    parser.add_argument("--jobs", type=int, default=1, help="processes; quote times of 1 only (default: 1)")
    parser.add_argument("--results", type=Path, default=RESULTS / f"{module}.jsonl")
    arguments = parser.parse_args()
    folder = folder_of_sets(arguments.data)
    names = sets_of(folder)
    if unknown := set(arguments.subset or []) - set(names):
        parser.error(f"not among the sets: {', '.join(sorted(unknown))}")
    names = arguments.subset or names

    keys = [(n, arguments.split, m, version_of(m)) for n in names for m in arguments.models]
    found = run_missing(partial(fit_to_set, module, folder), keys, arguments.results, arguments.jobs)
    records = {(n, m): record for (n, _, m, _), record in found.items()}
    summary = summarise(records, names, arguments.models)
    print_summary(summary, records, names)
    config = {"split": arguments.split, "threads_per_fit": 1, "n_sets": len(names)}
    jobs = max(r.get("jobs", 1) for r in records.values())
    write_json(arguments.json, summary, **config, jobs=jobs)
    return 1 if any("error" in r for r in records.values()) else 0
