"""The tables of the page: models over all sets, and sets one by one with the winner marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from bayesvm_studies.datasets import published_accuracies
from bayesvm_studies.drawings import titles
from bayesvm_studies.olson_summary import OURS, OlsonSummary
from bayesvm_studies.paper_summary import MAIN_MODELS, PUBLISHED_RANKS, PaperSummary
from bayesvm_studies.roster import MULTI_CLASS


class Cell(NamedTuple):
    """A number in words; ``best`` is marked, ``small`` stands below it."""

    text: str
    best: bool = False
    small: str = ""


class Line(NamedTuple):
    """A row of a table; ``ours`` is in colour."""

    name: str
    cells: list[Cell]
    small: str = ""
    ours: bool = False


class Table(NamedTuple):
    """Heads and lines."""

    heads: list[str]
    lines: list[Line]


def seconds(value: float) -> str:
    """A time with two digits that mean something.

    Examples
    --------
    >>> [seconds(v) for v in (0.0123, 1.234, 45.6, 4000.0, float("nan"))]
    ['0.012 s', '1.2 s', '46 s', '67 min', '–']
    """
    if not np.isfinite(value):
        return "–"
    if value >= 600:
        return f"{value / 60:.0f} min"
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "–"


def _ranked(ranks: dict[str, float], name: str) -> Cell:
    rank = ranks.get(name, float("nan"))
    best = bool(ranks) and np.isfinite(rank) and rank == min(ranks.values())
    return Cell(_number(rank, 2), best)


def _median(values: Iterable[float]) -> float:
    known = [v for v in values if np.isfinite(v)]
    return float(np.median(known)) if known else float("nan")


def paper_models(paper: PaperSummary) -> Table:
    """Ours beside what the paper printed."""
    names, ranks, accuracy = titles("paper"), paper.ranks.as_dict(), paper.mean_accuracy()
    lines = []
    for model, name in names.items():
        if model not in MAIN_MODELS and not any(model in s.fit_s for s in paper.sets):
            continue
        published = PUBLISHED_RANKS.get(model)
        fastest = sum(
            s.fit_s.get(model, np.inf) <= min((s.fit_s.get(m, np.inf) for m in MAIN_MODELS), default=np.inf)
            for s in paper.complete
        )
        cells = [
            _ranked(ranks, model) if model in MAIN_MODELS else Cell(""),
            Cell("" if published is None else f"{published:.2f}"),
            Cell(_number(accuracy.get(model, float("nan")), 4)),
            Cell(str(fastest) if model in MAIN_MODELS else ""),
            Cell(_number(paper.time_ratio(model, MULTI_CLASS), 3)),
        ]
        lines.append(Line(name, cells, ours=model == MULTI_CLASS))
    return Table(["Mean rank", "In the paper", "Mean accuracy", "Fastest on", "Time over multi-class"], lines)


def olson_models(olson: OlsonSummary) -> Table:
    """All models, the best by accuracy first."""
    names, summary = titles("olson"), olson.as_dict()
    lines = []
    every = [*olson.models, *olson.limited]
    for model in sorted(every, key=lambda m: summary["mean_rank"].get(m, np.inf)):
        accuracy = summary["mean_accuracy"].get(model, float("nan"))
        n_sets, failed = summary["mean_accuracy_n_sets"][model], sum(model in s.failed for s in olson.sets)
        best = np.isfinite(accuracy) and accuracy == max(
            summary["mean_accuracy"].get(m, -1.0) for m in olson.models
        )
        cells = [
            Cell(_number(accuracy, 4), bool(best), f"{n_sets} sets"),
            _ranked(summary["mean_rank"], model),
            _ranked(summary["log_loss_rank"], model),
            Cell(_number(summary["ece_per_model"].get(model, float("nan")), 3)),
            Cell(seconds(_median(s.fit_s.get(model, np.nan) for s in olson.sets))),
            Cell(seconds(_median(s.predict_s.get(model, np.nan) for s in olson.sets))),
            Cell(_number(_median(s.peak_mb.get(model, np.nan) for s in olson.sets), 0) + " MB"),
            Cell(str(failed) if failed else ""),
        ]
        small = "on some sets" if model in olson.limited else ""
        lines.append(Line(names[model], cells, small, model == OURS))
    heads = ["Accuracy", "Rank", "Log-loss rank", "ECE", "Fit", "Predict", "Memory", "Sets failed"]
    return Table(heads, lines)


def published_table(olson: OlsonSummary) -> Table:
    """Means of what was published, the best first."""
    means = olson.mean_published()
    names = {"LR": "Logistic regression", "SVC": "Support vector machine", "KNN": "Nearest neighbours"}
    names |= {"DT": "Decision tree", "RF": "Random forest", "GB": "Gradient boosting"}
    lines = [
        Line(name, [Cell(_number(means[f"{c}_{kind}"], 4)) for kind in ("single", "best")])
        for c, name in sorted(names.items(), key=lambda item: -means.get(f"{item[0]}_single", 0.0))
        if means
    ]
    return Table(["One configuration", "Best per set"], lines)


def _best(values: dict[str, float], digits: int) -> set[str]:
    """Names with the highest value as it is printed."""
    rounded = {m: round(v, digits) for m, v in values.items() if np.isfinite(v)}
    return {m for m, v in rounded.items() if v == max(rounded.values())}


def olson_sets(olson: OlsonSummary) -> Table:
    """Accuracy of every model on every set, the winner marked; published ones beside."""
    names, published = titles("olson"), published_accuracies()
    every = [*olson.models, *olson.limited]
    lines = []
    for s in olson.sets:
        accuracy = {m: p.accuracy for m, p in s.scores.items()}
        best = _best(accuracy, 3)
        cells = [_accuracy_cell(m, accuracy, m in best, s.failed, s.missing) for m in every]
        known = published.get(s.name, {})
        for kind in ("single", "best"):
            of_kind = [v for c, v in known.items() if c.endswith(kind)]
            cells.append(Cell(f"{max(of_kind):.3f}" if of_kind else "–"))
        lines.append(Line(s.name, cells, f"{s.rows:,} rows"))
    heads = [*(names[m] for m in every), "Published, one configuration", "Published, tuned per set"]
    return Table(heads, lines)


def _accuracy_cell(
    model: str, accuracy: dict[str, float], best: bool, failed: dict[str, str], missing: Any
) -> Cell:
    if model in accuracy:
        return Cell(f"{accuracy[model]:.3f}", best)
    if model in failed:
        return Cell("too long" if failed[model].startswith("ended after") else "failed")
    return Cell("missing" if model in missing else "–")


def paper_sets_table(paper: PaperSummary) -> Table:
    """Accuracy and seconds of every model on every set, the winner marked."""
    names = titles("paper")
    shown = [m for m in names if any(m in s.accuracy for s in paper.sets)]
    lines = []
    for s in paper.sets:
        best = _best({m: v for m, v in s.accuracy.items() if m in MAIN_MODELS}, 9)
        cells = []
        for m in shown:
            cell = _accuracy_cell(
                m, {k: v for k, v in s.accuracy.items() if np.isfinite(v)}, m in best, s.failed, s.missing
            )
            cells.append(cell._replace(small=seconds(s.fit_s[m]) if m in s.fit_s else ""))
        small = f"{s.rows:,} rows" + (f", {s.setting.epochs} epochs" if s.shortened else "")
        lines.append(Line(s.name, cells, small))
    return Table([names[m] for m in shown], lines)
