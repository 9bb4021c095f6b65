"""The tables of the page: all models of a group, and the clocks."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np

from bayesvm_studies.images.evaluate import SCORES
from bayesvm_studies.images.recipes import GROUPS, PACE, PLAIN, title_of
from bayesvm_studies.images.summary import TEMPERED, GroupSummary, ImageSummary, Scores, own, predict_ms
from bayesvm_studies.page_tables import Cell, Line, Table, seconds


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
            cells.append(Cell(_number(of(scores), digits), best, small))
        plain = model.removesuffix(TEMPERED)
        cells.append(Cell(seconds(summary.epoch_seconds(group.name, plain))))
        cells.append(Cell(f"{predict_ms(scores):.3g} ms"))
        n = len(scores.seeds)
        lines.append(Line(title_of(model), cells, f"{n} seed{'s' if n > 1 else ''}", own(model)))
    return Table([*(c[0] for c in columns), "Epoch", "Predict 1,000"], lines)


def ood_table(group: GroupSummary) -> Table:
    """Area under the ROC curve by model and measure of doubt."""
    lines = [
        Line(title_of(m), [Cell(_number(s.auroc(score), 4)) for score in SCORES], ours=own(m))
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


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "–"
