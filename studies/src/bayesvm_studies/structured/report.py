"""Tables, figures and page of the study of structured data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bayesvm_studies.datasets import CITATION, published_accuracies
from bayesvm_studies.figures import (
    Calibration,
    Pair,
    critical_difference_figure,
    reliability_grid,
    scatter_figure,
    times_figure,
)
from bayesvm_studies.page import Cell, Drawing, Line, Report, Table, in_order, many, number, seconds
from bayesvm_studies.results import Result, tidy_csv
from bayesvm_studies.statistics import reliability
from bayesvm_studies.structured.contestants import MULTI_CLASS, OLSON_SEED, PAPER_SEED, contestants
from bayesvm_studies.structured.summary import (
    ECE_ROWS,
    MAIN_MODELS,
    OURS,
    PUBLISHED_RANKS,
    OlsonSummary,
    PaperSummary,
    Summary,
    summarise,
)


def _ranked(ranks: dict[str, float], name: str) -> Cell:
    rank = ranks.get(name, float("nan"))
    best = bool(ranks) and np.isfinite(rank) and rank == min(ranks.values())
    return Cell(number(rank, 2), best)


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
            Cell(number(accuracy.get(model, float("nan")), 4)),
            Cell(str(fastest) if model in MAIN_MODELS else ""),
            Cell(number(paper.time_ratio(model, MULTI_CLASS), 3)),
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
            Cell(number(accuracy, 4), bool(best), f"{n_sets} sets"),
            _ranked(summary["mean_rank"], model),
            _ranked(summary["log_loss_rank"], model),
            Cell(number(summary["ece_per_model"].get(model, float("nan")), 3)),
            Cell(seconds(_median(s.fit_s.get(model, np.nan) for s in olson.sets))),
            Cell(seconds(_median(s.predict_s.get(model, np.nan) for s in olson.sets))),
            Cell(number(_median(s.peak_mb.get(model, np.nan) for s in olson.sets), 0) + " MB"),
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
        Line(name, [Cell(number(means[f"{c}_{kind}"], 4)) for kind in ("single", "best")])
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


# Rivals that have a scatter plot of their own: as many as fill two rows.
_RIVALS = 4


def titles(protocol: str) -> dict[str, str]:
    """Names of the models for the reader."""
    return {name: c.title for name, c in contestants(protocol).items()}


def drawings(summary: Summary) -> dict[str, Drawing]:
    """Figures for which there are results."""
    found: dict[str, Drawing] = {}
    if summary.paper.complete:
        found |= _of_paper(summary.paper)
    if summary.olson.complete(summary.olson.models) and len(summary.olson.models) > 1:
        found |= _of_olson(summary.olson)
    large = [s for s in summary.olson.sets if s.rows >= ECE_ROWS and s.scores]
    if large:
        found["reliability"] = _reliability(summary.olson)
    return found


def _of_paper(paper: PaperSummary) -> dict[str, Drawing]:
    names = titles("paper")
    sets = paper.complete
    pairs = [
        Pair(
            names[MULTI_CLASS],
            names[rival],
            [s.accuracy[MULTI_CLASS] for s in sets],
            [s.accuracy[rival] for s in sets],
        )
        for rival in MAIN_MODELS[1:]
    ]
    timed = [m for m in names if any(m in s.fit_s for s in paper.sets)]
    seconds = {names[m]: [s.fit_s.get(m, np.nan) for s in paper.sets] for m in timed}
    rows = [s.rows for s in paper.sets]
    return {
        "paper_ranks": Drawing(
            partial(critical_difference_figure, paper.ranks, names, MULTI_CLASS),
            f"Mean ranks by test accuracy of three models on {len(sets)} sets.",
        ),
        "paper_accuracy": Drawing(
            partial(scatter_figure, pairs),
            "Test accuracy of the multi-class model against that of each rival, a dot per set.",
        ),
        "paper_times": Drawing(
            partial(times_figure, rows, seconds),
            "Training time of every model against the rows of the set, both on logarithmic axes.",
        ),
    }


def _of_olson(olson: OlsonSummary) -> dict[str, Drawing]:
    names = titles("olson")
    accuracy = olson.ranks(lambda p: -p.accuracy)
    log_loss = olson.ranks(lambda p: p.log_loss)
    every = [*olson.models, *olson.limited]
    seconds = {names[m]: [s.fit_s.get(m, np.nan) for s in olson.sets] for m in every}
    rows = [s.rows for s in olson.sets]
    found = {
        "olson_ranks": Drawing(
            partial(critical_difference_figure, accuracy, names, OURS),
            f"Mean ranks by accuracy on {accuracy.n_sets} sets.",
        ),
        "olson_log_loss_ranks": Drawing(
            partial(critical_difference_figure, log_loss, names, OURS),
            f"Mean ranks by log-loss on {log_loss.n_sets} sets.",
        ),
        "olson_times": Drawing(
            partial(times_figure, rows, seconds),
            "Training time of every model against the rows of the set, both on logarithmic axes.",
        ),
    }
    if olson.limited and olson.complete(every):
        small = olson.ranks(lambda p: -p.accuracy, every)
        found["olson_small_ranks"] = Drawing(
            partial(critical_difference_figure, small, names, OURS),
            f"Mean ranks by accuracy of every model on the {small.n_sets} sets that all of them finished.",
        )
    if OURS in olson.models:
        best = [m for _, m in sorted(zip(accuracy.mean_rank, accuracy.models, strict=True)) if m != OURS]
        pairs = [_pair(olson, rival, names) for rival in best[:_RIVALS]]
        found["olson_accuracy"] = Drawing(
            partial(scatter_figure, pairs),
            "Accuracy of BayesianSVC against that of its closest rivals, a dot per set.",
        )
    return found


def _pair(olson: OlsonSummary, rival: str, names: dict[str, str]) -> Pair:
    both = [s for s in olson.sets if {OURS, rival} <= set(s.scores)]
    ours = [s.scores[OURS].accuracy for s in both]
    return Pair(names[OURS], names[rival], ours, [s.scores[rival].accuracy for s in both])


def _reliability(olson: OlsonSummary) -> Drawing:
    names = titles("olson")
    calibrations, errors = [], olson.mean_ece()
    for model in olson.models:
        # Every set counts alike, however many rows it has.
        shares = [
            s.scores[model].bins / s.scores[model].n_rows
            for s in olson.sets
            if s.rows >= ECE_ROWS and model in s.scores
        ]
        rows = sum(s.scores[model].n_rows for s in olson.sets if s.rows >= ECE_ROWS and model in s.scores)
        if shares:
            curve = reliability(rows * np.mean(shares, axis=0))
            calibrations.append(Calibration(names[model], curve, errors[model]))
    return Drawing(
        partial(reliability_grid, calibrations),
        "Reliability diagrams: accuracy against confidence, one for each model.",
    )


_CONTENTS = (
    ("paper", "The paper's protocol"),
    ("olson", "Against what people use"),
    ("reliability", "Are the probabilities right?"),
    ("paper_sets", "Set by set: the paper's protocol"),
    ("olson_sets", "Set by set: ten folds"),
    ("gaps", "What is missing or failed"),
    ("method", "How it was measured"),
)


def report(results: Sequence[Result]) -> Report:
    """What the results say."""
    summary = summarise(results)
    numbers = summary.as_dict()
    context, table = partial(_context, summary, numbers), partial(tidy_csv, results)
    return Report(numbers, _facts(numbers), drawings(summary), "structured.html", context, table)


def _context(summary: Summary, numbers: dict[str, Any], figures: Mapping[str, str]) -> dict[str, Any]:
    return {
        "contents": [item for item in _CONTENTS if _has(item[0], summary, figures)],
        "key_figures": _key_figures(numbers),
        "shortened": numbers["paper"]["shortened"],
        "paper_models": paper_models(summary.paper),
        "paper_sets": paper_sets_table(summary.paper),
        "olson_models": olson_models(summary.olson),
        "olson_sets": olson_sets(summary.olson),
        "published": published_table(summary.olson),
        "citation": CITATION,
        "paper_seed": PAPER_SEED,
        "olson_seed": OLSON_SEED,
    }


def _has(section: str, summary: Summary, figures: Mapping[str, str]) -> bool:
    if section == "reliability":
        return "reliability" in figures
    if section.startswith("paper"):
        return bool(summary.paper.sets)
    return bool(summary.olson.sets) or section in ("gaps", "method")


def _key_figures(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    """Numbers to remember and what they are."""
    paper, olson = numbers["paper"], numbers["olson"]
    found: list[tuple[str, str]] = []
    if paper["n_sets"]:
        rank = paper["mean_rank"]["multi_class"]
        found.append((f"{rank:.2f}", "mean rank of the multi-class model among three (the paper: 1.68)"))
        found.append(
            (f"{paper['fastest_on']} of {paper['n_sets']}", "sets on which it trains fastest of the three")
        )
    if paper["default_over_paper_time"]:
        times = 1.0 / paper["default_over_paper_time"]
        found.append((f"1/{times:.0f}", "of the time of the paper's recipe is what the default needs"))
    if "bayesvm" in olson["mean_accuracy"]:
        n_sets = olson["mean_accuracy_n_sets"]["bayesvm"]
        accuracy = olson["mean_accuracy"]["bayesvm"]
        found.append((f"{accuracy:.4f}", f"mean accuracy with defaults on {n_sets} published sets"))
    if olson["ece"] is not None:
        found.append((f"{olson['ece']:.3f}", "calibration error on sets with at least 1,000 rows"))
    return found


def _facts(numbers: dict[str, Any]) -> list[tuple[str, ...]]:
    """The most important numbers as lines for the terminal."""
    paper, olson = numbers["paper"], numbers["olson"]
    rows: list[tuple[str, ...]] = [("fits", str(numbers["n_fits"]))]
    if paper["n_sets"]:
        ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in paper["mean_rank"].items())
        rows += [
            ("paper: mean rank", f"{ranks} on {paper['n_sets']} sets"),
            ("paper: fastest", f"multi_class on {paper['fastest_on']} of {paper['n_sets']} sets"),
        ]
        if paper["default_over_paper_time"] is not None:
            rows.append(("default / paper time", f"{paper['default_over_paper_time']:.3g}"))
    if olson["n_sets"]:
        if len(olson["mean_rank"]) > 1:
            rows += [
                ("olson: mean rank", _best_four(olson["mean_rank"], olson["n_sets"])),
                ("olson: log-loss rank", _best_four(olson["log_loss_rank"], olson["n_sets"])),
            ]
        for key, what in (("small_sets", "small sets"), ("every_model", "every model")):
            part = olson[key]
            if len(part["mean_rank"]) > len(olson["mean_rank"]) and part["n_sets"]:
                rows.append((f"olson: {what}", _best_four(part["mean_rank"], part["n_sets"])))
        if OURS in olson["mean_accuracy"]:
            n_sets = olson["mean_accuracy_n_sets"][OURS]
            rows.append(("olson: accuracy", f"{olson['mean_accuracy'][OURS]:.4f} on {n_sets} sets"))
    if olson["fewer_folds"]:
        n = len(olson["fewer_folds"])
        rows.append(("olson: folds", f"fewer than ten on {many(n, 'set')}; --json lists them"))
    for name, part in (("paper", paper), ("olson", olson)):
        for what in ("missing", "failed"):
            if part[what]:
                rows.append((f"{name}: {what}", f"on {many(len(part[what]), 'set')}; --json lists them"))
    for name, found in numbers["versions"].items():
        if len(found) > 1:
            rows.append((f"{name}: versions", f"{len(found)} of bayesvm are mixed; the newest fit counts"))
    return rows + [("note", str(note)) for note in numbers["notes"]]


def _best_four(ranks: dict[str, float], n_sets: int) -> str:
    best = dict(sorted(ranks.items(), key=lambda item: item[1])[:4])
    return f"{in_order(best)} on {n_sets} sets"
