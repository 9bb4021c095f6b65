"""The tables of the README, from the committed results; ``--write`` puts them there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- results: benchmarks/readme_table.py --write -->", "<!-- end of results -->"
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


def tables() -> str:
    """Both tables in Markdown."""
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
    lines += ["", "| limits, two threads | measured | aim |", "|---|---|---|"]
    lines += [f"| {what} | {limits[key]:.2f} | {aim} |" for key, (what, aim) in LIMITS.items()]
    return "\n".join(lines)


def main() -> None:
    readme = ROOT / "README.md"
    if "--write" not in sys.argv:
        print(tables())
        return
    before, rest = readme.read_text().split(BEGIN)
    readme.write_text(f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
