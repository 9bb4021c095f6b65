"""All figures of the experiments by name, each with what it shows in words."""

from __future__ import annotations

import numpy as np

from bayesvm_studies.figures.critical_difference import critical_difference_figure
from bayesvm_studies.figures.reliability import Calibration, reliability_grid
from bayesvm_studies.figures.scatter import Pair, scatter_figure
from bayesvm_studies.figures.times import times_figure
from bayesvm_studies.olson_summary import ECE_ROWS, OURS, OlsonSummary
from bayesvm_studies.paper_summary import MAIN_MODELS, PaperSummary
from bayesvm_studies.rendering import Drawing
from bayesvm_studies.roster import MULTI_CLASS, contestants
from bayesvm_studies.scoring import reliability
from bayesvm_studies.summary import Summary

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
            lambda width: critical_difference_figure(paper.ranks, names, MULTI_CLASS, width),
            f"Mean ranks by test accuracy of three models on {len(sets)} sets.",
        ),
        "paper_accuracy": Drawing(
            lambda width: scatter_figure(pairs, width),
            "Test accuracy of the multi-class model against that of each rival, a dot per set.",
        ),
        "paper_times": Drawing(
            lambda width: times_figure(rows, seconds, width),
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
            lambda width: critical_difference_figure(accuracy, names, OURS, width),
            f"Mean ranks by accuracy on {accuracy.n_sets} sets.",
        ),
        "olson_log_loss_ranks": Drawing(
            lambda width: critical_difference_figure(log_loss, names, OURS, width),
            f"Mean ranks by log-loss on {log_loss.n_sets} sets.",
        ),
        "olson_times": Drawing(
            lambda width: times_figure(rows, seconds, width),
            "Training time of every model against the rows of the set, both on logarithmic axes.",
        ),
    }
    if olson.limited and olson.complete(every):
        small = olson.ranks(lambda p: -p.accuracy, every)
        found["olson_small_ranks"] = Drawing(
            lambda width: critical_difference_figure(small, names, OURS, width),
            f"Mean ranks by accuracy of every model on the {small.n_sets} sets that all of them finished.",
        )
    if OURS in olson.models:
        best = [m for _, m in sorted(zip(accuracy.mean_rank, accuracy.models, strict=True)) if m != OURS]
        pairs = [_pair(olson, rival, names) for rival in best[:_RIVALS]]
        found["olson_accuracy"] = Drawing(
            lambda width: scatter_figure(pairs, width),
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
        lambda width: reliability_grid(calibrations, width),
        "Reliability diagrams: accuracy against confidence, one for each model.",
    )
