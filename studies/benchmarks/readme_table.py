"""The tables of the README and of docs/family.md, from the committed results; ``--write`` puts them there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from peers_race import AIMS

from bayesvm_studies.store import read_lines

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- results: studies/benchmarks/readme_table.py --write -->", "<!-- end of results -->"
NAMES = {
    "bayesvm": "`BayesianSVC()`",
    "random_forest": "random forest, 200 trees",
    "hist_gradient_boosting": "HistGradientBoosting",
    "svc_grid": "SVC, grid search, Platt scaling",
    "logistic_regression": "logistic regression",
}
LIMITS = {
    "sweep_over_products": ("one sweep over the matrix products and solves it cannot avoid", "1.4"),
    "classes_10_to_500": ("a sweep with 500 classes over one with 10", "3"),
    "rows_20k_to_200k": ("a sweep over 200 000 rows over one over 20 000", "11"),
    "peak_gb_1m": ("peak memory of a fit to a million rows above the data, GB", "2"),
}
STARTUP = {
    "help_s": ("`bayesvm --help`, s", "0.3"),
    "import_ratio": ("importing `BayesianSVC` over importing torch and scikit-learn", "not much over 1"),
    "iris_fit_s": ("a fit to iris, s", "0.3"),
    "wine_fit_s": ("a fit to wine, s", "0.3"),
}
RACES = {
    "gpflow": "GPflow SVGP, robust-max",
    "gpflow_minibatch": "… on minibatches of 256",
    "gpytorch": "GPyTorch SVGP, softmax",
    "gpytorch_minibatch": "… on minibatches of 256",
}

FAMILY = {
    "crammer_singer": "`BayesianSVC()`",
    "crammer_singer_mean": '`BayesianSVC(rivals="mean")`',
    "crammer_singer_ecm": '`BayesianSVC(inference="ecm")`',
    "crammer_singer_slice": '`BayesianSVC(inference="slice")`',
    "one_vs_rest": "`OneVsRestBayesianSVC()`",
    "one_vs_rest_augmented": '`OneVsRestBayesianSVC(expectation="augmented")`',
    "one_vs_rest_ecm_fitc": '`OneVsRestBayesianSVC(inference="ecm", approximation="fitc")`',
    "one_vs_rest_gibbs_fitc": '`OneVsRestBayesianSVC(inference="gibbs", approximation="fitc")`',
    "binary_per_class": "`OneVsRestClassifier(BinaryBayesianSVC())`",
    "svgp_softmax": '`SVGPClassifier(likelihood="softmax")`',
    "svgp_robustmax": '`SVGPClassifier(likelihood="robustmax")`',
    "linear_variational": "`LinearBayesianSVC()`",
    "linear_em": '`LinearBayesianSVC(inference="em")`',
    "linear_gibbs": '`LinearBayesianSVC(inference="gibbs")`',
    "random_forest": "random forest, 200 trees",
    "logistic_regression": "logistic regression",
}


def fraction(ratio: float) -> str:
    """A ratio of times as a reader likes it: 1/29.6, or 2.5 if we are slower."""
    return f"1/{1 / ratio:.1f}" if ratio < 1 else f"{ratio:.1f}"


def race_table(peers: dict[str, Any]) -> list[str]:
    """The race of peers.py: GPflow's target on digits, and each peer's own on the other sets."""
    digits = {r["peer"]: r for r in peers["races"] if r["data"] == "digits"}
    target = digits["gpflow"]["target"]
    n_sets = peers["suite"]["n_sets_gpflow"]
    lines = [
        f"| our time over theirs, one thread, 64 inducing points | theirs to {target:.3f} on digits, s | "
        f"ours, s | ratio | aim | mean ratio, {n_sets} sets | aim |",
        "|---|---|---|---|---|---|---|",
    ]
    for peer, name in RACES.items():
        aim, suite_aim = (
            f"1/{AIMS[part][peer]}" if peer in AIMS[part] else "" for part in ("digits", "suite")
        )
        race = digits[peer]
        theirs = f"{'≥ ' if race['at_least'] else ''}{race['peer_s']:.1f}"
        ours = "never" if race["ours_s"] is None else f"{race['ours_s']:.2f}"
        ratio = f"{'≤ ' if race['at_least'] else ''}{fraction(race['ratio'])}"
        suite = fraction(peers["suite"][f"time_ratio_{peer}"])
        lines.append(f"| {name} | {theirs} | {ours} | {ratio} | {aim} | {suite} | {suite_aim} |")
    return lines


def family_table() -> str:
    """Every model of the library on the ten sets of family.py, and which fits did not converge."""
    folder = ROOT / "results" / "benchmarks"
    family = json.loads((folder / "family.json").read_text())
    lines = [
        "| ten PMLB sets, 64 inducing points | accuracy | log-loss | rank | calibration error | fit, s |",
        "|---|---|---|---|---|---|",
    ]
    keys = {"accuracy": 3, "log_loss": 3, "rank_log_loss": 1, "ece": 3, "median_fit_s": 2}
    for model, name in FAMILY.items():
        cells = [f"{family[model][key]:.{digits}f}" for key, digits in keys.items()]
        lines.append(f"| {' | '.join([name, *cells])} |")
    fits = [json.loads(line) for line in read_lines(folder / "family.jsonl").splitlines()]
    unfinished: dict[str, list[str]] = {}
    for fit in fits:
        if fit["version"] == family["config"]["bayesvm"] and not fit.get("converged", True):
            unfinished.setdefault(FAMILY[fit["model"]], []).append(fit["data"])
    said = [f"{name} on {', '.join(sorted(data))}" for name, data in sorted(unfinished.items())]
    return "\n".join([*lines, "", f"Not converged by their own tests: {'; '.join(said) or 'none'}."])


def readme_tables() -> str:
    """All tables of the README in Markdown."""
    folder = ROOT / "results" / "benchmarks"
    quality = json.loads((folder / "quality.json").read_text())
    limits = json.loads((folder / "limits.json").read_text())
    lines = [
        "| untuned, 52 PMLB sets, one thread | accuracy | log-loss | calibration error | median fit, s |",
        "|---|---|---|---|---|",
    ]
    for key, name in NAMES.items():
        row = "| {name} | {accuracy:.3f} | {log_loss:.3f} | {ece:.3f} | {median_fit_s:.2f} |"
        lines.append(row.format(name=name, **quality[key]))
    lines += ["", "| limits, two cores | measured | aim |", "|---|---|---|"]
    lines += [f"| {what} | {limits[key]:.2f} | {aim} |" for key, (what, aim) in LIMITS.items()]
    startup = json.loads((folder / "startup.json").read_text())
    lines += [f"| {what} | {startup[key]:.2f} | {aim} |" for key, (what, aim) in STARTUP.items()]
    race = folder / "peers.json"
    if race.is_file():
        lines += ["", *race_table(json.loads(race.read_text()))]
    return "\n".join(lines)


SVGP_RUNS = {
    "natural_adam": "minibatches of 256, one evaluation moves everything",
    "natural_adam, in turn": "the same, first q and then the rest, as GPflow does",
    "natural_adam, all rows": "all rows, one evaluation",
    "adam, all rows": "Adam for everything, all rows",
}


def svgp_table() -> str:
    """SVGPClassifier's steps against GPflow's, from svgp.py."""
    results = json.loads((ROOT / "results" / "benchmarks" / "svgp.json").read_text())["results"]
    lines = [
        "| GPflow's seconds per step over ours (difference in test log-loss) | robust-max | softmax |",
        "|---|---|---|",
    ]
    for run, name in SVGP_RUNS.items():
        cells = []
        for likelihood in ("robustmax", "softmax"):
            rows = [r for r in results if r["inference"] == run and r["likelihood"] == likelihood]
            cells.append(", ".join(f"{r['data']} {r['speed_up']:.2f} ({r['difference']:+.4f})" for r in rows))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def family_page() -> str:
    """The tables of docs/family.md."""
    return f"{family_table()}\n\n{svgp_table()}"


PAGES = {"README.md": readme_tables, "docs/family.md": family_page}


def with_tables(page: str, tables: str) -> str:
    """A page with its tables replaced."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    for name, tables in PAGES.items():
        path = ROOT / name
        if "--write" in sys.argv:
            path.write_text(with_tables(path.read_text(), tables()))
        else:
            print(tables(), end="\n\n")


if __name__ == "__main__":
    main()
