"""Whether a default fit estimates its own quality well, and how good it is beside others on small sets.

Noise, known rules, small PMLB sets, copied and weighted rows, abstention and prediction sets, and times
beside an earlier version and a busy neighbour. Nothing in the library was chosen on these splits and seeds.
Every trial is appended to a file as it ends, and a stopped run goes on; studies/README.md has the figures.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

from bayesvm_studies.benchmarks.common import (
    RESULTS,
    Record,
    command_line,
    folder_of_sets,
    source_version,
    use_threads,
    write_json,
)
from bayesvm_studies.benchmarks.comparison import Key, read_results, run_missing
from bayesvm_studies.benchmarks.honesty_trials import (
    CALIBRATION_ROWS,
    COVERAGE,
    LEVEL,
    RATES,
    Places,
    measured,
)
from bayesvm_studies.benchmarks.kernel_prior import RULES, SHAPES
from bayesvm_studies.datasets import data_file
from bayesvm_studies.results import lines_exist, read_lines, unpack_lines

BEFORE = "5e87c88"
MOST_ROWS = 1500
BINARY = ("german", "titanic")
COPIED = ("vehicle", "glass", "wine_recognition", "ecoli")
PARTS = ("noise", "rules", "small", "copies", "weights", "guarantees", "streamed", "pair", "busy", "cv")
COMPETITORS = ("random_forest", "catboost", "svc")
MODELS = ("frequencies", *COMPETITORS, "before", "ours")
# Splits and first simulated seed that judge; those of --development are for looking while code changes.
JUDGING = (50, 51, 52, 53, 54), 500
DEVELOPMENT = (100, 101, 102, 103, 104), 5000
NOISE_DRAWS, RULE_DRAWS, FITS = 10, 5, 3
RULE_ROWS, FIT_ROWS = (200, 500, 1000), (200, 500)
STREAMED_ROWS, STREAMED_FITS = 120_000, 20
# Of these parts the first splits only.
SPLITS = {"pair": 1, "cv": 2}


def sets_of(folder: Path) -> list[str]:
    """Names of the sets with at most 1,500 rows."""
    names = sorted(path.parent.name for path in folder.glob("*/*.tsv.gz"))
    return [name for name in names if _has_few_rows(data_file(name, data=folder, download=False))]


def _has_few_rows(path: Path) -> bool:
    with gzip.open(path, "rb") as file:
        return sum(1 for _ in islice(file, 1, MOST_ROWS + 2)) <= MOST_ROWS


def tasks(part: str, names: list[str], splits: tuple[int, ...], seed: int) -> list[tuple[str, int]]:
    """Names and seeds of the tasks of a part; no two simulations share a seed."""
    if part == "noise":
        return [
            (f"noise/{n}/{d}/{c}", seed + len(SHAPES) * draw + i)
            for draw in range(NOISE_DRAWS)
            for i, (n, d, c) in enumerate(SHAPES)
        ]
    seed += NOISE_DRAWS * len(SHAPES)
    if part in ("rules", "guarantees"):
        sizes, draws = (RULE_ROWS, RULE_DRAWS) if part == "rules" else (FIT_ROWS, FITS)
        seed += 0 if part == "rules" else len(RULES) * len(RULE_ROWS) * RULE_DRAWS
        cases = [(kind, n) for _ in range(draws) for kind in RULES for n in sizes]
        return [(f"{part}/{kind}/{n}", seed + i) for i, (kind, n) in enumerate(cases)]
    if part == "streamed":
        return [(f"streamed/{STREAMED_ROWS}", seed + 9000 + i) for i in range(STREAMED_FITS)]
    if part == "busy":
        return [(f"busy/{name}", 0) for name in ("digits", "clusters", "few")]
    some = COPIED if part in ("copies", "weights") else names
    return [(f"{part}/{name}", split) for name in some for split in splits[: SPLITS.get(part, len(splits))]]


def models_of(part: str) -> tuple[str, ...]:
    """Models that take part."""
    everyone = {"noise": ("frequencies", "ours"), "small": (*COMPETITORS, "before", "ours")}
    return everyone.get(part, ("ours",))


def version_of(model: str, label: str) -> str:
    """What must be unchanged for an old trial to count."""
    if model in ("frequencies", "random_forest", "svc"):
        return f"scikit-learn {sklearn.__version__}"
    return {"ours": label, "before": BEFORE, "catboost": f"catboost {version('catboost')}"}[model]


# --- Figures


def summarise(records: Iterable[Record]) -> Record:
    """All figures that the trials allow; those of a part are missing if it was not run."""
    parts: dict[str, list[Record]] = defaultdict(list)
    failed = 0
    for record in records:
        failed += "error" in record
        if "error" not in record:
            parts[record["data"].split("/")[0]].append(record)
    figures: Record = {}
    for part, summary in SUMMARIES.items():
        if parts[part]:
            figures |= summary(parts[part])
    if parts["cv"] and parts["small"]:
        figures["small"] |= estimates_of_folds(parts["small"], parts["cv"])
    return figures | {"failed": failed}


def mean(rows: list[Record], plus: str, minus: str | None = None) -> float:
    """Mean of a figure, or of its difference from another one."""
    return float(np.mean([r[plus] - (r[minus] if minus else 0.0) for r in rows]))


def estimates(rows: list[Record]) -> Record:
    """Leave-one-out estimates against the truth: positive gaps are optimism."""
    gaps = np.array([r["log_loss"] - r["loo_log_loss"] for r in rows])
    return {
        "trials": len(rows),
        "log_loss": mean(rows, "log_loss"),
        "accuracy": mean(rows, "accuracy"),
        "foretold_gap": float(gaps.mean()),
        "foretold_accuracy_gap": mean(rows, "loo_score", "accuracy"),
        "confidence_gap": mean(rows, "confidence", "accuracy"),
        "mean_absolute_gap": float(np.abs(gaps).mean()),
        "share_optimistic": optimistic(rows, "loo_log_loss"),
    }


def optimistic(rows: list[Record], estimate: str) -> float:
    """Share of the tasks whose mean log-loss is above its mean estimate."""
    gaps = defaultdict(list)
    for r in rows:
        gaps[r["data"]].append(r["log_loss"] - r[estimate])
    return float(np.mean([np.mean(values) > 0 for values in gaps.values()]))


def summarise_noise(rows: list[Record]) -> Record:
    """Gaps of accuracy on random labels, and those of class frequencies as the floor."""
    figures = {}
    for model in ("ours", "frequencies"):
        if own := [r for r in rows if r["model"] == model]:
            figures[model] = estimates(own) | {
                "foretold_log_loss_gap": mean(own, "log_loss", "loo_log_loss"),
                "foretold_gap": mean(own, "loo_score", "accuracy"),
                "excess_log_loss": mean(own, "log_loss", "prior_log_loss"),
            }
    return {"noise": figures.get("ours", {}) | {"floor": figures.get("frequencies", {})}}


def summarise_rules(rows: list[Record]) -> Record:
    """Rules of one or two columns, and those of all."""
    figures: Record = {}
    for name, some in (("sparse", list(RULES)[:4]), ("dense", list(RULES)[4:])):
        if own := [r for r in rows if r["data"].split("/")[1] in some]:
            figures[name] = estimates(own) | {"over_best": mean(own, "log_loss", "best_log_loss")}
    return {"rules": figures}


def summarise_small(rows: list[Record]) -> Record:
    """Means over the splits on which all models succeeded that were run at all."""
    by = {(r["model"], r["data"], r["split"]): r for r in rows}
    models = [m for m in models_of("small") if any(m == model for model, _, _ in by)]
    tried = {key[1:] for key in by}
    common = sorted(task for task in tried if all((m, *task) in by for m in models))
    of = {m: [by[m, *task] for task in common] for m in models} if common else {}
    figures: Record = {"tasks": len(common)}
    for m, own in of.items():
        suffix = "" if m == "ours" else f"_{m}"
        figures |= {f"{k}{suffix}": mean(own, k) for k in ("log_loss", "accuracy", "ece", "confidence")}
        figures[f"median_fit_s{suffix}"] = float(np.median([r["fit_s"] for r in own]))
        figures[f"median_predict_s{suffix}"] = float(np.median([r["predict_s"] for r in own]))
        if m in ("before", "ours"):
            gaps = estimates(own)
            figures |= {f"{k}{suffix}": gaps[k] for k in gaps if "gap" in k or k == "share_optimistic"}
    if "ours" in of and "before" in of:
        figures["log_loss_ratio"] = figures["log_loss"] / figures["log_loss_before"]
        figures["accuracy_gain"] = figures["accuracy"] - figures["accuracy_before"]
    return {"small": figures}


def estimates_of_folds(small: list[Record], cv: list[Record]) -> Record:
    """Estimates by ten folds of the fits that were judged, and by leave-one-out of the same ones."""
    fits = {_task(r): r for r in small if r["model"] == "ours"}
    rows = [fits[_task(r)] | {k: r[k] for k in ("cv_log_loss", "fit_s")} for r in cv if _task(r) in fits]
    if not rows:
        return {}
    gaps = {k: np.array([r["log_loss"] - r[k] for r in rows]) for k in ("loo_log_loss", "cv_log_loss")}
    return {
        "cv_trials": len(rows),
        "cv_foretold_gap": float(gaps["cv_log_loss"].mean()),
        "cv_mean_absolute_gap": float(np.abs(gaps["cv_log_loss"]).mean()),
        "cv_share_optimistic": optimistic(rows, "cv_log_loss"),
        "mean_absolute_gap_where_cv": float(np.abs(gaps["loo_log_loss"]).mean()),
        "cv_median_s": float(np.median([r["fit_s"] for r in rows])),
    }


def _task(record: Record) -> tuple[str, int]:
    return record["data"].split("/", 1)[1], record["split"]


def summarise_forms(rows: list[Record]) -> Record:
    """Copied or weighted rows."""
    return {rows[0]["data"].split("/")[0]: estimates(rows)}


def summarise_guarantees(rows: list[Record]) -> Record:
    """How often guarantees are broken, and what they cost; ``left_out`` is without calibration rows."""
    return {
        "abstain": kept_rates(rows, CALIBRATION_ROWS) | {"left_out": kept_rates(rows, ("left_out",))},
        "sets": set_figures(rows, CALIBRATION_ROWS) | {"left_out": set_figures(rows, ("left_out",))},
    }


def summarise_streamed(rows: list[Record]) -> Record:
    """Promises of large tables, by rows held out and by leave-one-out of a sample."""
    return {"streamed": {how: kept_rates(rows, (how,)) for how in ("held_out", "left_out")}}


def kept_rates(rows: list[Record], by: Iterable[int | str]) -> Record:
    """Figures over all rates and numbers of calibration rows, and of each."""
    found = []  # rate, calibration rows, answered share, what could be answered, whether exceeded, contested
    for r in rows:
        for rate, of in r["abstain"].items():
            for n in by:
                for share, error in of[str(n)]:
                    contested = of["error_of_all"] > float(rate)
                    found.append((float(rate), n, share, of["oracle"], error > float(rate), contested))

    def figures(some: list[Any]) -> Record:
        broken = [exceeded for *_, exceeded, _ in some]
        contested = [exceeded for *_, exceeded, contested in some if contested]
        oracle = sum(x[3] for x in some)
        return {
            "draws": len(some),
            "exceeded": float(np.mean(broken)),
            "exceeded_where_not_all_may_be_answered": float(np.mean(contested)) if contested else None,
            "answered_over_oracle": float(sum(x[2] for x in some) / oracle) if oracle else None,
        }

    rates = sorted({x[0] for x in found})
    return figures(found) | {
        f"{rate:g}, {n} rows" if isinstance(n, int) else f"{rate:g}": figures(
            [x for x in found if x[:2] == (rate, n)]
        )
        for rate in rates
        for n in by
    }


def set_figures(rows: list[Record], by: Iterable[int | str]) -> Record:
    """Coverage above the nominal one, size, and size over that of MAPIE's sets.

    Where the favourite alone is right more often than the nominal coverage, sets that always hold it must
    exceed that coverage, and MAPIE's empty sets are smaller; so both figures also come without these cases.
    """

    def figures(some: list[list[float]]) -> Record:
        table = np.array(some)
        found = {"coverage_gap": float(table[:, 0].mean()) - COVERAGE, "mean_size": float(table[:, 1].mean())}
        if table.shape[1] > 2:
            found["size_ratio"] = float(table[:, 1].mean() / table[:, 2].mean())
            found["size_ratio_without_empty_sets"] = float(table[:, 1].mean() / table[:, 3].mean())
        return found

    each = {n: [draw for r in rows for draw in r["sets"][str(n)]] for n in by}
    whole = figures([draw for draws in each.values() for draw in draws])
    hard = [r for r in rows if 1.0 - next(iter(r["abstain"].values()))["error_of_all"] < COVERAGE]
    if hard:
        left = figures([draw for r in hard for n in each for draw in r["sets"][str(n)]])
        whole["coverage_gap_where_accuracy_is_lower"] = left["coverage_gap"]
    return whole | ({f"{n} rows": figures(draws) for n, draws in each.items()} if len(each) > 1 else {})


def summarise_pairs(rows: list[Record]) -> Record:
    """Our seconds over those of the earlier version, set by set."""
    ratios = [r["ours_s"] / r["before_s"] for r in rows]
    return {"fit_time_ratio": float(np.median(ratios)), "fit_time_ratio_worst": float(np.max(ratios))}


def summarise_busy(rows: list[Record]) -> Record:
    """Seconds of two threads over those of one beside a busy neighbour."""
    each = {r["data"].split("/")[1]: r["two_threads_s"] / r["one_thread_s"] for r in rows}
    ratios = list(each.values())
    worst = float(np.max(ratios))
    return {
        "busy_thread_ratio": worst,
        "busy_thread_ratio_median": float(np.median(ratios)),
        "busy_thread_ratios": each,
    }


SUMMARIES: dict[str, Callable[[list[Record]], Record]] = {
    "noise": summarise_noise,
    "rules": summarise_rules,
    "small": summarise_small,
    "copies": summarise_forms,
    "weights": summarise_forms,
    "guarantees": summarise_guarantees,
    "streamed": summarise_streamed,
    "pair": summarise_pairs,
    "busy": summarise_busy,
}


# --- The run


def forget(path: Path, again: set[str]) -> None:
    """Drop trials of these models or versions from a file."""
    unpack_lines(path)
    lines = read_lines(path).decode().splitlines()
    kept = [line for line in lines if line.endswith("}") and not again & _names(json.loads(line))]
    whole = path.with_name(f"{path.name}.kept")
    whole.write_text("".join(f"{line}\n" for line in kept))
    whole.replace(path)


def _names(record: Record) -> set[str]:
    return {record["model"], record["version"]}


def checked_source(folder: Path | None) -> Path | None:
    """Where the earlier version is imported from; an exit if the folder holds another one."""
    if folder is None:
        return None
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    if not commit.startswith(BEFORE):
        sys.exit(f"{folder} is not at commit {BEFORE}: git worktree add FOLDER {BEFORE}")
    return folder.resolve() / "src"


def main() -> int:
    parser = command_line(__doc__, data="folder of PMLB sets (else BAYESVM_DATA)")
    parser.add_argument(
        "--binary", type=Path, metavar="DIR", required=True, help="folder with german and titanic"
    )
    parser.add_argument(
        "--before", type=Path, metavar="DIR", help=f"checkout of {BEFORE}; without it, not run"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument(
        "--label", default=source_version(), help="version of ours (default: from the source)"
    )
    parser.add_argument(
        "--again", nargs="+", metavar="NAME", default=[], help="models or labels to forget first"
    )
    parser.add_argument("--development", action="store_true", help="splits and seeds that judge nothing")
    parser.add_argument("--jobs", type=int, default=1, help="processes; quote times of 1 only (default: 1)")
    parser.add_argument("--results", type=Path, default=RESULTS / "honesty.jsonl")
    arguments = parser.parse_args()
    use_threads(1)
    folder = folder_of_sets(arguments.data)
    places = Places(folder, arguments.binary, checked_source(arguments.before))
    names = [*sets_of(folder), *BINARY]
    splits, seed = DEVELOPMENT if arguments.development else JUDGING
    if arguments.again and lines_exist(arguments.results):
        forget(arguments.results, set(arguments.again))
    known = read_results(arguments.results)
    keys: list[Key] = []
    for part in PARTS:
        for model in models_of(part):
            of = version_of(model, arguments.label)
            here = [(data, split, model, of) for data, split in tasks(part, names, splits, seed)]
            wanted = part in arguments.parts and model in arguments.models
            run = wanted and not (places.before is None and (model == "before" or part == "pair"))
            # Earlier records count for the summary in any case.
            keys += here if run else [key for key in here if key in known and "error" not in known[key]]
    found = run_missing(partial(measured, places), keys, arguments.results, arguments.jobs)
    figures = summarise(found.values())
    print(json.dumps(figures, indent=1))
    config = {
        "splits": splits,
        "first_seed": seed,
        "label": arguments.label,
        "before": BEFORE,
        "sets": names,
        "rates": RATES,
        "level": LEVEL,
        "coverage": COVERAGE,
        "threads_per_fit": 1,
        "jobs": max((r.get("jobs", 1) for r in found.values()), default=1),
        "catboost": version("catboost"),
        "mapie": version("mapie"),
    }
    write_json(arguments.json, figures, **config)
    return 1 if figures["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
