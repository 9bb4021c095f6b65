"""Tables, figures and page of the study of images."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bayesvm_studies.figures import Calibration, Curve, Panel, curves_figure, reliability_grid
from bayesvm_studies.images.arrays import HELD_OUT
from bayesvm_studies.images.plan import (
    GROUPS,
    N_INDUCING,
    OWN_HEADS,
    PACE,
    PLAIN,
    SCORES,
    WARMUP_EPOCHS,
    title_of,
)
from bayesvm_studies.images.summary import (
    TEMPERED,
    GroupSummary,
    ImageSummary,
    Scores,
    own,
    predict_ms,
    severities_of,
    summarise_images,
)
from bayesvm_studies.page import Cell, Drawing, Line, Report, Table, many, number, seconds
from bayesvm_studies.results import Result, tidy_csv
from bayesvm_studies.statistics import reliability


def group_table(summary: ImageSummary, group: GroupSummary) -> Table:
    """Scores of all models, means over seeds, the best marked."""
    columns: list[tuple[str, Callable[[Scores], float], int, bool]] = [
        ("Accuracy", lambda s: s.mean(lambda p: p.accuracy), 4, True),
        ("Log-loss", lambda s: s.mean(lambda p: p.log_loss), 4, False),
        ("ECE", lambda s: s.mean(lambda p: p.ece), 4, False),
        ("Brier", lambda s: s.mean(lambda p: p.brier), 4, False),
        ("OOD AUROC", _best_auroc, 3, True),
    ]
    values = {m: [round(of(s), digits) for _, of, digits, _ in columns] for m, s in group.models.items()}
    lines = []
    for model, scores in group.models.items():
        cells = []
        for k, (head, of, digits, larger) in enumerate(columns):
            known = [v[k] for v in values.values() if np.isfinite(v[k])]
            best = bool(known) and values[model][k] == (max(known) if larger else min(known))
            small = _spread(scores) if head == "Accuracy" else ""
            cells.append(Cell(number(of(scores), digits), best, small))
        plain = model.removesuffix(TEMPERED)
        cells.append(Cell(seconds(summary.epoch_seconds(group.name, plain))))
        cells.append(Cell(f"{predict_ms(scores):.3g} ms"))
        n = len(scores.seeds)
        lines.append(Line(title_of(model), cells, many(n, "seed"), own(model)))
    return Table([*(c[0] for c in columns), "Epoch", "Predict 1,000"], lines)


def ood_table(group: GroupSummary) -> Table:
    """Area under the ROC curve by model and measure of doubt."""
    lines = [
        Line(title_of(m), [Cell(number(s.auroc(score), 4)) for score in SCORES], ours=own(m))
        for m, s in group.models.items()
        if any(s.ood)
    ]
    return Table([score.replace("_", " ").capitalize() for score in SCORES], lines)


def clock_table(summary: ImageSummary) -> Table:
    """Median seconds of an epoch of every head, in turns, and their ratio to softmax."""
    lines = []
    for name, clock in summary.clocks.items():
        if name.endswith(PACE):
            continue
        cells = []
        for head in ("softmax", "bayesvm", "bayesvm_adam"):
            found = clock.extra["epoch_s"].get(head)
            ratio = clock.extra["ratio"].get(head)
            text = seconds(statistics.median(found)) if found else "–"
            cells.append(Cell(text, small=f"{ratio:.2f} times" if found and head != "softmax" else ""))
        known = GROUPS.get(name.removesuffix(PLAIN))
        title = "1000 classes, residual network" if known is None else known.title
        title += ", steps one by one" if name.endswith(PLAIN) else ""
        lines.append(Line(title, cells, f"{clock.n_train:,} rows"))
    return Table([title_of(head) for head in ("softmax", "bayesvm", "bayesvm_adam")], lines)


def _best_auroc(scores: Scores) -> float:
    """Of the measure that suits the model best."""
    found = [scores.auroc(score) for score in SCORES if np.isfinite(scores.auroc(score))]
    return max(found) if found else float("nan")


def _spread(scores: Scores) -> str:
    """Standard deviation over the seeds."""
    if len(scores.seeds) < 2:
        return ""
    return f"± {statistics.stdev(p.accuracy for p in scores.seeds):.4f}"


# Models whose curves the paper has, and the one by which we train them better.
_FOLLOWED = ("softmax", *OWN_HEADS)
_SCORE_TITLES = {
    "entropy": "Entropy",
    "log_variation_ratio": "Log variation ratio",
    "mutual_information": "Mutual information",
    "largest_probability": "Largest probability",
}
_AUROC = "Area under the ROC curve"


def image_drawings(summary: ImageSummary) -> dict[str, Drawing]:
    """Figures for which there are results."""
    found: dict[str, Drawing] = {}
    for name, group in summary.groups.items():
        if any(model in group.curves for model in _FOLLOWED):
            found[f"{name}_accuracy"] = _accuracy(summary, group)
            found[f"{name}_objective"] = _objective(group)
        if group.models:
            found[f"{name}_reliability"] = _reliability(group)
        corrupted = _corruptions(group)
        if corrupted is not None:
            found[f"{name}_corruptions"] = corrupted
    for data, runs in summary.warmups.items():
        found[f"warmup_{data}"] = _warmup(data, runs)
    return found


def _curve(result: Result, what: str, seconds: float | None = None) -> Curve:
    """A run over its epochs, or over seconds if an epoch takes so many."""
    epochs = result.extra["epochs"]
    step = 1.0 if seconds is None else seconds
    return Curve([step * e["number"] for e in epochs], [e[what] for e in epochs])


def _accuracy(summary: ImageSummary, group: GroupSummary) -> Drawing:
    followed = [m for m in _FOLLOWED if m in group.curves]
    by_epoch = {title_of(m): [_curve(r, "test_accuracy") for r in group.curves[m]] for m in followed}
    by_time = {
        title_of(m): [
            _curve(r, "test_accuracy", summary.epoch_seconds(group.name, m)) for r in group.curves[m]
        ]
        for m in followed
    }
    panels = [
        Panel("Epoch", "Test accuracy", by_epoch, trim=True),
        Panel("Seconds of training", "Test accuracy", by_time, trim=True),
    ]
    return Drawing(
        partial(curves_figure, panels),
        f"{GROUPS[group.name].title}: test accuracy against epochs and against seconds of training.",
    )


def _objective(group: GroupSummary) -> Drawing:
    panels = [
        Panel(
            "Epoch",
            label,
            {title_of(m): [_curve(r, what) for r in group.curves[m]] for m in _FOLLOWED if m in group.curves},
        )
        for what, label in (("objective", "Objective per row"), ("likelihood", "Likelihood per row"))
    ]
    return Drawing(
        partial(curves_figure, panels), f"{GROUPS[group.name].title}: objective and likelihood per epoch."
    )


def _reliability(group: GroupSummary) -> Drawing:
    calibrations = [
        Calibration(title_of(model), reliability(scores.pooled_bins()), scores.mean(lambda p: p.ece))
        for model, scores in group.models.items()
    ]
    return Drawing(
        partial(reliability_grid, calibrations),
        f"{GROUPS[group.name].title}: accuracy against confidence, one diagram for each model.",
    )


def _corruptions(group: GroupSummary) -> Drawing | None:
    names = {name for s in group.models.values() for seed in s.ood for name in seed}
    severities = severities_of(names)
    if not severities:
        return None
    panels = []
    for score in SCORES:
        curves = {
            title_of(model): [Curve(severities, [s.auroc(score, k) for k in severities])]
            for model, s in group.models.items()
            if not model.endswith(TEMPERED) and np.isfinite(s.auroc(score))
        }
        if curves:
            panels.append(Panel("Severity", _AUROC, curves, _SCORE_TITLES[score]))
    return Drawing(
        partial(curves_figure, panels),
        f"{GROUPS[group.name].title}: how well doubt tells corrupted images from clean ones, by severity.",
    )


def _warmup(data: str, runs: dict[str, Result]) -> Drawing:
    panels = [
        Panel(
            "Epoch",
            label,
            {_warmup_title(model): [_curve(r, what)] for model, r in runs.items()},
        )
        for what, label in (
            ("objective", "Objective per row"),
            ("likelihood", "Likelihood per row"),
            ("test_accuracy", "Test accuracy"),
        )
    ]
    return Drawing(
        partial(curves_figure, panels),
        f"{data}: first epochs with and without a warm-up of the divergence, for both ways to train q.",
    )


def _warmup_title(model: str) -> str:
    plain = model.removesuffix("_warmup")
    way = "natural steps" if plain == "bayesvm" else "joint Adam"
    return f"{way}, warm-up" if model != plain else way


def report(results: Sequence[Result]) -> Report:
    """What the results say."""
    summary = summarise_images(results)
    numbers = summary.as_dict()
    context, table = partial(_context, summary, numbers), partial(tidy_csv, results)
    return Report(numbers, _facts(numbers), image_drawings(summary), "images.html", context, table)


def _context(summary: ImageSummary, numbers: dict[str, Any], figures: Mapping[str, str]) -> dict[str, Any]:
    groups = {name: group for name, group in summary.groups.items() if group.models or group.failed}
    contents = [(name, GROUPS[name].title) for name in groups]
    if summary.warmups:
        contents.append(("warmup", "Does a warm-up of the divergence help?"))
    if summary.clocks:
        contents.append(("timing", "What the head costs"))
    contents += [("gaps", "What is missing or failed"), ("method", "How it was measured")]
    return {
        "contents": contents,
        "key_figures": _key_figures(numbers),
        "groups": groups,
        "recipes": {name: _recipe_words(name) for name in groups},
        "tables": {name: group_table(summary, group) for name, group in groups.items()},
        "oods": {name: ood_table(group) for name, group in groups.items()},
        "warmups": sorted(summary.warmups),
        "warmup_epochs": WARMUP_EPOCHS,
        "clocks": clock_table(summary),
        "failed_elsewhere": [
            f"{r.protocol} {r.data} {r.model}: {r.error}"
            for r in summary.results
            if not r.ok and r.protocol in ("warmup", "timing")
        ],
        "shared_by": max((r.jobs for r in summary.results if r.protocol in GROUPS), default=1),
        "held_out": HELD_OUT,
        "n_inducing": N_INDUCING,
    }


def _key_figures(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    """Numbers to remember and what they are."""
    found: list[tuple[str, str]] = []
    for name, group in GROUPS.items():
        accuracy = numbers[name]["accuracy"]
        if {"bayesvm", "softmax"} <= set(accuracy):
            words = f"test accuracy, softmax {100 * accuracy['softmax']:.2f} %: {group.title}"
            found.append((f"{100 * accuracy['bayesvm']:.2f} %", words))
    ratio = numbers["epoch_time_ratio"]["cifar10_residual"]
    if ratio is not None:
        found.append((f"{ratio:.2f}", "times the training time of a softmax layer, residual network"))
    return found


def _recipe_words(name: str) -> str:
    recipe = GROUPS[name].recipe
    words = [f"{recipe['epochs']} epochs of Adam at {recipe['rate']:g}", f"batches of {recipe['batch_size']}"]
    if recipe.get("schedule") == "one_cycle":
        words.append("one cycle")
    if "weight_decay" in recipe:
        words.append(f"weight decay {recipe['weight_decay']:g}")
    if GROUPS[name].augment:
        words.append("random crops, mirror images and holes")
    words.append("network in bf16" if recipe.get("precision") == "bf16" else "single precision")
    return ", ".join(words)


def _facts(numbers: dict[str, Any]) -> list[tuple[str, ...]]:
    """The most important numbers as lines for the terminal."""
    rows: list[tuple[str, ...]] = [("runs", str(numbers["n_runs"]))]
    for name, ece in numbers["ece"].items():
        accuracy, log_loss = numbers[name]["accuracy"], numbers[name]["log_loss"]
        for model in ("softmax", "softmax_tempered", "bayesvm", "bayesvm_tempered"):
            if model in accuracy:
                scores = f"accuracy {accuracy[model]:.4f}  log-loss {log_loss[model]:.4f}"
                rows.append((f"{name}: {model}", f"{scores}  ECE {ece[model]:.4f}"))
        rows += [(f"{name}: failed", f"{model}: {why[0]}") for model, why in numbers[name]["failed"].items()]
    ratios = {k: v for k, v in numbers["epoch_time_ratio"].items() if v is not None}
    if numbers["epoch_time_ratio_1000_classes"] is not None:
        ratios["1000 classes"] = numbers["epoch_time_ratio_1000_classes"]
    if ratios:
        rows.append(("epoch / softmax", ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())))
    return rows
