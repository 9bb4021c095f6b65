"""The tables of README.md and of pages of docs/ from the committed results.

Printed, or with ``--write`` put into the pages.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

from bayesvm_studies.benchmarks.common import RESULTS, ROOT, Record
from bayesvm_studies.benchmarks.honesty_trials import RATES, STREAMED_RATES
from bayesvm_studies.benchmarks.race import AIMS
from bayesvm_studies.results import read_lines

NAMES = {
    "bayesvm": "`BayesianSVC()`",
    "random_forest": "random forest, 200 trees",
    "hist_gradient_boosting": "HistGradientBoosting",
    "svc_grid": "SVC, grid search, Platt scaling",
    "logistic_regression": "logistic regression",
}
CONTEST = {
    "bayesvm": "`BayesianSVC()`",
    "catboost": "CatBoost",
    "random_forest": "random forest, 500 trees",
    "hist_gradient_boosting": "HistGradientBoosting",
    "lightgbm": "LightGBM",
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
    "crammer_singer": "`BayesianSVC(committee=False)`",
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
SCALE = {
    "poker.sweep_over_products": "poker: one sweep over the products and solves it cannot avoid",
    "poker.fit_seconds": "poker: a fit to convergence, s",
    "poker.peak_gb": "poker: peak memory above the data, GB",
    "gpu.speedup": "poker: two cores over one accelerator, the same sweep",
    "classes_1000.speedup": "1000 classes: a step of a softmax SVGP over a sweep",
    "dask.time_ratio": "Dask, two worker processes over one process with two threads",
    "dask.max_difference": "… largest difference of the two fits",
    "predict.one_row_ms": "`predict_proba`, one row, ms",
    "predict.one_row_compiled_ms": "… compiled, ms",
    "predict.rows_per_second": "… compiled, in batches, rows a second",
}
HONESTY = {
    "noise.foretold_gap": ("labels of pure noise: left-out minus true accuracy", "±.02"),
    "noise.excess_log_loss": ("… log-loss above that of the class frequencies", "≤ .01"),
    "noise.confidence_gap": ("… mean confidence minus accuracy", "±.03"),
    "small.foretold_gap": ("small sets: true minus left-out log-loss", "±.02"),
    "small.share_optimistic": ("… share of the sets where that is positive", ".4 to .6"),
    "small.mean_absolute_gap_where_cv": ("… mean distance of the two", "that of ten folds"),
    "small.cv_mean_absolute_gap": ("… the same of ten-fold cross-validation", ""),
    "small.log_loss_ratio": ("… log-loss over that of commit 5e87c88", "≤ .95"),
    "small.accuracy_gain": ("… accuracy minus that of commit 5e87c88", "≥ .007"),
    "small.log_loss": ("… log-loss", "CatBoost's"),
    "small.log_loss_catboost": ("… of CatBoost's defaults", ""),
    "small.accuracy": ("… accuracy", "CatBoost's"),
    "small.accuracy_catboost": ("… of CatBoost's defaults", ""),
    "abstain.exceeded": ("calibration rows, rates .02 to .1: rate exceeded, of draws", "≤ .1"),
    "abstain.answered_over_oracle": ("… answered over what could be", "≥ .8"),
    "sets.coverage_gap": ("… coverage of sets minus .9", "≥ −.01"),
    "sets.size_ratio_without_empty_sets": ("… size over that of MAPIE's, none of them empty", "≤ 1.05"),
    "fit_time_ratio": ("seconds of a fit over those of commit 5e87c88, median of the sets", "≤ 1.5"),
    "busy_thread_ratio": ("two threads over one beside a busy neighbour, worst of three", "≤ 1.5"),
}
TERMS = {
    "row": "1",
    "row P": "P",
    "row D P": "D P",
    "row P^2": "P²",
    "row P C": "P C",
    "class P^2": "C P²",
    "class P^3": "C P³",
}


def fraction(ratio: float) -> str:
    """A ratio of times as a reader likes it: 1/29.6, or 2.5 if we are slower."""
    return f"1/{1 / ratio:.1f}" if ratio < 1 else f"{ratio:.1f}"


def _read(name: str) -> Record:
    """A committed file of figures."""
    found: Record = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def _table(head: list[str], rows: list[list[str]]) -> str:
    first, *others = (f"| {' | '.join(line)} |" for line in (head, *rows))
    return "\n".join([first, "|---" * len(head) + "|", *others])


def race_table(peers: Record) -> str:
    """The race of race.py: GPflow's target on digits, and each peer's own on the other sets."""
    digits = {r["peer"]: r for r in peers["races"] if r["data"] == "digits"}
    target = digits["gpflow"]["target"]
    n_sets = peers["suite"]["n_sets_gpflow"]
    rows = []
    for peer, name in RACES.items():
        aim, suite_aim = (
            f"1/{AIMS[part][peer]}" if peer in AIMS[part] else "" for part in ("digits", "suite")
        )
        race = digits[peer]
        theirs = f"{'≥ ' if race['at_least'] else ''}{race['peer_s']:.1f}"
        ours = "never" if race["ours_s"] is None else f"{race['ours_s']:.2f}"
        ratio = f"{'≤ ' if race['at_least'] else ''}{fraction(race['ratio'])}"
        suite = fraction(peers["suite"][f"time_ratio_{peer}"])
        rows.append([name, theirs, ours, ratio, aim, suite, suite_aim])
    head = ["our time over theirs, one thread, 64 inducing points", f"theirs to {target:.3f} on digits, s"]
    return _table([*head, "ours, s", "ratio", "aim", f"mean ratio, {n_sets} sets", "aim"], rows)


def family_table() -> str:
    """Every model of the library on the ten sets of family.py, and which fits did not converge."""
    family = _read("family")
    head = [
        "ten PMLB sets, 64 inducing points",
        "accuracy",
        "log-loss",
        "rank",
        "calibration error",
        "fit, s",
    ]
    keys = {"accuracy": 3, "log_loss": 3, "rank_log_loss": 1, "ece": 3, "median_fit_s": 2}
    rows = [
        [name, *(f"{family[model][key]:.{digits}f}" for key, digits in keys.items())]
        for model, name in FAMILY.items()
    ]
    fits = [json.loads(line) for line in read_lines(RESULTS / "family.jsonl").splitlines()]
    unfinished: dict[str, list[str]] = {}
    for fit in fits:
        if fit["version"] == family["config"]["bayesvm"] and not fit.get("converged", True):
            unfinished.setdefault(FAMILY[fit["model"]], []).append(fit["data"])
    said = [f"{name} on {', '.join(sorted(data))}" for name, data in sorted(unfinished.items())]
    return f"{_table(head, rows)}\n\nNot converged by their own tests: {'; '.join(said) or 'none'}."


def quality_table() -> str:
    """Untuned models on the sets of quality.py."""
    found, keys = _read("quality"), {"accuracy": 3, "log_loss": 3, "ece": 3, "median_fit_s": 2}
    head = ["untuned, 52 PMLB sets, one thread", "accuracy", "log-loss", "calibration error", "median fit, s"]
    rows = [[name, *(f"{found[m][k]:.{digits}f}" for k, digits in keys.items())] for m, name in NAMES.items()]
    return _table(head, rows)


def contest_table() -> str:
    """Every ranked model of the contest, and ours against each."""
    found = json.loads((ROOT / "results" / "contest.json").read_text(encoding="utf-8"))
    rows = []
    for model in found["ranked"]:
        pair = found["pairs"].get(model)
        against = [""] * 4
        if pair is not None:
            against = [
                part
                for score in ("log_loss", "accuracy")
                for part in (
                    f"{pair[score]['wins']}–{pair[score]['losses']}",
                    f"{found['p'][score][model]:.1g}",
                )
            ]
        figures = [
            f"{found['mean_accuracy'][model]:.3f}",
            f"{found['mean_log_loss'][model]:.3f}",
            f"{found['rank']['log_loss'][model]:.2f}",
            f"{found['time']['geometric_mean'][model]:.2g}",
        ]
        rows.append([CONTEST.get(model, model), *figures, *against])
    head = [
        *(f"untuned, {found['n_sets']} PMLB sets", "accuracy", "log-loss", "rank by log-loss", "fit, s"),
        *("log-loss, won–lost", "p", "accuracy, won–lost", "p"),
    ]
    return _table(head, rows)


def limits_table() -> str:
    """Distance from the hardware, growth of cost, and what a user waits for first."""
    rows = []
    for found, names in ((_read("limits"), LIMITS), (_read("startup"), STARTUP)):
        rows += [[what, f"{found[key]:.2f}", aim] for key, (what, aim) in names.items()]
    return _table(["limits, two cores", "measured", "aim"], rows)


SVGP_RUNS = {
    "natural_adam": "minibatches of 256, one evaluation moves everything",
    "natural_adam, in turn": "the same, first q and then the rest, as GPflow does",
    "natural_adam, all rows": "all rows, one evaluation",
    "adam, all rows": "Adam for everything, all rows",
}


def svgp_table() -> str:
    """SVGPClassifier's steps against GPflow's, from svgp.py."""
    results = _read("svgp")["results"]
    rows = []
    for run, name in SVGP_RUNS.items():
        cells = []
        for likelihood in ("robustmax", "softmax"):
            mine = [r for r in results if r["inference"] == run and r["likelihood"] == likelihood]
            cells.append(", ".join(f"{r['data']} {r['speed_up']:.2f} ({r['difference']:+.4f})" for r in mine))
        rows.append([name, *cells])
    head = ["GPflow's seconds per step over ours (difference in test log-loss)", "robust-max", "softmax"]
    return _table(head, rows)


def honesty_table(found: Record) -> str:
    """How true the estimates of a fit are, and how good it is on small sets."""

    def figure(path: str) -> str:
        value: Any = found
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return "not measured" if value is None else f"{value:.3f}"

    rows = [[what, figure(path), aim] for path, (what, aim) in HONESTY.items()]
    return _table(["`honesty`", "measured", "aim"], rows)


def promises_table(found: Record) -> str:
    """Promised error rates of answers: how often they were exceeded, and how much was answered."""

    def cells(kept: Record) -> list[str]:
        return [f"{100 * kept['exceeded']:.1f} %", f"{kept['answered_over_oracle']:.2f}"]

    rows = []
    small, large = found["abstain"], found["streamed"]
    for rate in RATES:
        few, many = (cells(small[f"{rate:g}, {n} rows"]) for n in (200, 1000))
        both = [" / ".join(pair) for pair in zip(few, many, strict=True)]
        rows.append([f"{rate:g}", "200 and 500 rows", *both, *cells(small["left_out"][f"{rate:g}"])])
    for rate in STREAMED_RATES:
        held, left = large["held_out"][f"{rate:g}"], large["left_out"][f"{rate:g}"]
        rows.append([f"{rate:g}", "120,000 rows, read in chunks", *cells(held), *cells(left)])
    head = ["rate", "fitted to", "calibration rows: rate exceeded", "answered", "without: rate exceeded"]
    return _table([*head, "answered"], rows)


# --- docs/scale.md --------------------------------------------------------------------------------


def scale_figures(content: Record) -> str:
    """Every figure with its bar."""
    rows = []
    for name, (sign, bar) in content["config"]["bars"].items():
        value = f"{content[name]:.4g}" if name in content else "not measured"
        rows.append([SCALE[name], value, f"{sign} {bar:g}"])
    return _table(["figure", "measured", "bar"], rows)


def constants(models: dict[str, Record]) -> str:
    """Constants of the cost model on every kind of machine."""
    names = list(models)
    rows = []
    for term, unit in TERMS.items():
        what = "each class" if term.startswith("class") else "each row"
        values = [f"{1e9 * m['constants'][term]:.3g}" for m in models.values()]
        rows.append([f"{unit} ({what})", *values])
    for label, key in (("largest error of the fit", "largest_error_of_fit"),):
        rows.append([label, *(f"{100 * m[key]:.0f} %" for m in models.values())])
    checks = [m["check"][0] for m in models.values()]
    sizes = [f"N = {c['N']}, D = {c['D']}, P = {c['P']}, C = {c['C']}" for c in checks]
    rows.append(["the run it was not fitted to", *sizes])
    rows.append(["… measured, s", *(f"{c['measured_s']:.3g}" for c in checks)])
    rows.append(["… predicted, s", *(f"{c['predicted_s']:.3g}" for c in checks)])
    rows.append(["… error", *(f"{100 * c['error']:+.0f} %" for c in checks)])
    return _table(["term, ns", *names], rows)


def ahead(models: dict[str, Record]) -> str:
    """What the constants say about sizes that no one has run."""
    first = next(iter(models.values()))["ahead"]
    rows = []
    for i, size in enumerate(first):
        shape = [f"{size[k]:.0e}".replace("e+0", "e") if size[k] > 9999 else str(size[k]) for k in "NDPC"]
        seconds = [_seconds(m["ahead"][i]["sweep_s"]) for m in models.values()]
        network = f"{size['network_bytes'] / 1e9:.3g}"
        rows.append([*shape, str(size["workers"]), f"{size['posterior_gb']:.3g}", network, *seconds])
    head = ["N", "D", "P", "C", "machines", "q, GB", "sent, GB", *(f"a sweep, {name}" for name in models)]
    return _table(head, rows)


def on_gpu(gpu: Record) -> str:
    """Sweeps and the fit of poker on the accelerator, and whole fits against the same on the processor."""
    best = {
        kind: {
            precision: min(
                v["median_ms"] for k, v in gpu["sweep"].items() if k.startswith(f"{kind}, {precision}")
            )
            for precision in ("float64", "float32 moments")
        }
        for kind in ("kept", "anew")
    }
    times = [
        ["a sweep, features kept, ms", f"{best['kept']['float64']:.3g}"],
        ["… moments in single precision", f"{best['kept']['float32 moments']:.3g}"],
        ["… features made anew", f"{best['anew']['float64']:.3g}"],
        ["… rows sent as well", f"{gpu['from_host']['median_ms']:.3g}"],
        ["the fit to convergence, s", f"{gpu['fit']['fit_s']:.3g}"],
    ]
    same = [
        [f"`{name}`", f"{found['max_difference']:.0e}".replace("e-0", "e-")]
        for name, found in gpu["estimators"].items()
    ]
    name = gpu["machine"]["name"]
    return "\n\n".join(
        [
            _table([f"poker, 64 inducing points, {name}", "measured"], times),
            _table(["900 rows, 4 classes", "largest difference of class probabilities"], same),
        ]
    )


def thousands(found: Record) -> str:
    """A default fit to thousands of classes, and predictions."""
    predict = found["predict"]
    rows = [
        ["classes, rows, inducing points", f"{found['classes']}, {found['rows']}, {found['inducing']}"],
        ["fit, s", f"{found['fit_s']:.0f}"],
        ["… peak memory, GB", f"{found['peak_gb']:.1f}"],
        ["… sweeps", f"{found['sweeps']}{'' if found['converged'] else ', not converged'}"],
        ["accuracy on new rows", f"{predict['accuracy']:.3f}"],
        ["… leave-one-out says", f"{found['loo_score']:.3f}"],
        ["… mean probability of the favourite", f"{predict['mean_confidence']:.3f}"],
        [f"`predict_proba`, {predict['rows']} rows, s", f"{predict['proba_s']:.2f}"],
    ]
    for name, top in found.items():
        if name.startswith("top_5"):
            rows.append([f"`predict_top_k`, {name.split(', ')[1]}, s", f"{top['s']:.2f}"])
    return _table(["ten thousand classes", "measured"], rows)


def _seconds(s: float) -> str:
    return f"{s:.2g} s" if s < 120 else f"{s / 60:.2g} min" if s < 7200 else f"{s / 3600:.2g} h"


def scale_tables(content: Record) -> dict[str, str]:
    """The tables of docs/scale.md by name, as far as they were measured."""
    details = content.get("details", {})
    gpu = details.get("gpu", {})
    tables = {"figures": scale_figures(content)}
    models = {"two cores": content["model"]} if "model" in content else {}
    if "model" in gpu:
        models[gpu.get("machine", {}).get("name", "accelerator")] = gpu["model"]
    if models:
        tables |= {"constants": constants(models), "ahead": ahead(models)}
    if "thousands" in details:
        tables["thousands"] = thousands(details["thousands"])
    if {"estimators", "from_host", "fit", "sweep", "machine"} <= set(gpu):
        tables["gpu"] = on_gpu(gpu)
    return tables


# --- pages ----------------------------------------------------------------------------------------

# By page its tables by name: a table stands between <!-- NAME: ... --> and <!-- end of NAME -->.
PAGES: dict[str, Callable[[], dict[str, str]]] = {
    "README.md": lambda: {"quality": quality_table(), "contest": contest_table()},
    "docs/performance.md": lambda: {
        "limits": limits_table(),
        "race": race_table(_read("peers")),
    },
    "docs/guarantees.md": lambda: {
        "honesty": honesty_table(_read("honesty")),
        "promises": promises_table(_read("honesty")),
    },
    "docs/family.md": lambda: {"results": f"{family_table()}\n\n{svgp_table()}"},
    "docs/scale.md": lambda: scale_tables(_read("scale")),
}


def with_tables(page: str, tables: dict[str, str]) -> str:
    """A page with its tables replaced."""
    for name, table in tables.items():
        place = re.compile(rf"(<!-- {name}: [^>]*-->).*?(<!-- end of {name} -->)", re.DOTALL)
        before, begin, end, after = place.split(page)
        page = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return page


def main() -> None:
    for name, tables in PAGES.items():
        path = ROOT / name
        if "--write" in sys.argv:
            path.write_text(with_tables(path.read_text(encoding="utf-8"), tables()), encoding="utf-8")
        else:
            print(*tables().values(), sep="\n\n", end="\n\n")


if __name__ == "__main__":
    main()
