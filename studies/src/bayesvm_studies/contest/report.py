"""Tables, figures and page of the contest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bayesvm_studies.contest.contestants import (
    CATBOOST_LIMIT_S,
    OURS,
    PART_FOLDS,
    PART_ROWS,
    contestants,
)
from bayesvm_studies.contest.summary import ContestSet, ContestSummary, Standing, summarise
from bayesvm_studies.figures import Pair, critical_difference_figure, scatter_figure, times_figure
from bayesvm_studies.page import Cell, Drawing, Line, Report, Table, in_order, many, number, seconds
from bayesvm_studies.results import Result, tidy_csv
from bayesvm_studies.structured.contestants import COMPETITOR_LIMIT_S, OLSON_SEED

_NO = float("nan")
_SCORES = (("log_loss", "log-loss"), ("accuracy", "accuracy"))


def titles() -> dict[str, str]:
    """Names of the models for the reader."""
    return {name: c.title for name, c in contestants().items()}


def p_words(p: float | None) -> str:
    """A p-value with two significant digits, or a dash where there is none.

    Examples
    --------
    >>> p_words(0.04321), p_words(3e-9), p_words(None)
    ('0.043', '3e-09', '–')
    """
    return "–" if p is None or not np.isfinite(p) else f"{p:.2g}"


_LEVEL = 0.05


def _verdict(numbers: dict[str, Any], rival: str, what: str) -> int:
    """At the level of the tests, 1 if ours is better than a rival, -1 if it is worse, 0 if nobody can say."""
    p, of = numbers["p"][what][rival], numbers["pairs"][rival][what]
    if p is None or p >= _LEVEL:
        return 0
    return int(np.sign(of["wins"] - of["losses"]))


def rivals_table(numbers: dict[str, Any]) -> Table:
    """A line per rival: how often it was beaten, and how sure that is."""
    names, lines = titles(), []
    for rival, pair in numbers["pairs"].items():
        cells = []
        for what in ("log_loss", "accuracy"):
            of, alone = pair[what], p_words(numbers["p_alone"][what][rival])
            ties = many(of["ties"], "tie") if of["ties"] else ""
            verdict = _verdict(numbers, rival, what)
            small = f"{'ours is worse, ' if verdict < 0 else ''}alone {alone}"
            p = Cell(p_words(numbers["p"][what][rival]), verdict > 0, small)
            cells += [Cell(f"{of['wins']} – {of['losses']}", small=ties), p]
        cells.append(Cell(number(_known(pair["time_ratio"]), 2), small=f"{pair['n_fits']} fits"))
        lines.append(Line(names[rival], cells, f"{many(pair['n_sets'], 'set')}"))
    return Table(["Log-loss: won – lost", "p", "Accuracy: won – lost", "p", "Their time over ours"], lines)


def medians_table(numbers: dict[str, Any]) -> Table:
    """Means and medians of both sides of every pair, over their common sets and folds."""
    names, lines = titles(), []
    for rival, pair in numbers["pairs"].items():
        cells = []
        for what in ("log_loss", "accuracy"):
            for figure in ("mean", "median"):
                ours, theirs = (_known(pair[what].get(key)) for key in (figure, f"{figure}_theirs"))
                ahead = theirs - ours if what == "log_loss" else ours - theirs
                cells.append(Cell(number(ours, 4), bool(ahead > 0), f"theirs {number(theirs, 4)}"))
        lines.append(Line(names[rival], cells, f"{many(pair['n_sets'], 'set')}"))
    heads = ["Log-loss, mean", "Log-loss, median", "Accuracy, mean", "Accuracy, median"]
    return Table(heads, lines)


def models_table(part: dict[str, Any], models: Sequence[str]) -> Table:
    """Models over the sets that all of them finished, the best by log-loss first."""
    names, lines = titles(), []
    ranks, times = part["rank"], part["time"]["geometric_mean"]
    for m in sorted(models, key=lambda m: _known(ranks["log_loss"].get(m), np.inf)):
        cells = []
        for what, digits in (("log_loss", 4), ("accuracy", 4)):
            values = {k: _known(v) for k, v in part[f"mean_{what}"].items()}
            best = bool(values) and values[m] == (min if what == "log_loss" else max)(values.values())
            median = number(_known(part[f"median_{what}"].get(m)), digits)
            cells.append(Cell(number(values.get(m, _NO), digits), best, f"median {median}"))
            cells.append(_best_rank(ranks[what], m))
        cells.append(Cell(seconds(_known(times.get(m)))))
        lines.append(Line(names[m], cells, ours=m == OURS))
    return Table(["Log-loss", "Rank", "Accuracy", "Rank", "Time of a fit"], lines)


def areas_table(summary: ContestSummary) -> Table:
    """Areas under the ROC curves of sets with two classes, the best marked; ranks below."""
    names, lines = titles(), []
    models = summary.ranked
    for s in (s for s in summary.whole if s.classes == 2):
        folds = {m: list(s.fits[m]) for m in models if m in s.fits}
        areas = {m: s.score("auc", m, folds[m]) for m in folds}
        best = max((round(v, 4) for v in areas.values()), default=_NO)
        cells = [Cell(number(areas.get(m, _NO), 4), round(areas.get(m, -1.0), 4) == best) for m in models]
        lines.append(Line(s.name, cells, f"{s.rows:,} rows"))
    ranks = summary.standing(models).ranks("auc")
    if ranks.n_sets:
        cells = [_best_rank(ranks.as_dict(), m) for m in models]
        lines.append(Line("Mean rank", cells, f"{many(ranks.n_sets, 'set')} that all finished"))
    return Table([names[m] for m in models], lines)


def sets_table(summary: ContestSummary, what: str) -> Table:
    """A score of every model on every set over its folds; the best of those with all folds is marked."""
    names, lines = titles(), []
    for s in summary.sets:
        scores = {m: s.score(what, m, s.fits[m]) for m in summary.known if m in s.fits}
        choose = min if what == "log_loss" else max
        judged = [m for m in scores if len(s.fits[m]) == len(s.folds)]
        best = choose((round(scores[m], 3) for m in judged), default=_NO)
        cells = [_set_cell(s, m, scores, m in judged and round(scores[m], 3) == best) for m in summary.known]
        lines.append(Line(s.name, cells, f"{s.rows:,} rows"))
    return Table([names[m] for m in summary.known], lines)


def _set_cell(s: ContestSet, model: str, scores: dict[str, float], best: bool) -> Cell:
    if model in scores:
        n = len(s.fits[model])
        return Cell(f"{scores[model]:.3f}", best, "" if n == len(s.folds) else many(n, "fold"))
    if model in s.gaps:
        why = s.gaps[model]
        if "ended after" in why:
            return Cell("too long")
        return Cell("missing" if "missing" in why else "failed")
    return Cell("–")


def _known(value: float | None, otherwise: float = _NO) -> float:
    """A number of the summary, in which what is not known is None."""
    return otherwise if value is None else value


def _best_rank(ranks: Mapping[str, float | None], model: str) -> Cell:
    known = {m: v for m, v in ranks.items() if v is not None}
    value = known.get(model, _NO)
    return Cell(number(value, 2), bool(known) and value == min(known.values()))


def drawings(summary: ContestSummary) -> dict[str, Drawing]:
    """Figures for which there are results."""
    found: dict[str, Drawing] = {}
    ranked, every = summary.standing(summary.ranked), summary.standing(list(summary.known))
    if len(ranked.models) > 1 and ranked.sets:
        found |= _ranks(ranked, "ranks", "of the models that run everywhere")
    if len(every.models) > len(ranked.models) and every.sets:
        found |= _ranks(every, "every_model", "of all models")
    names = titles()
    for rival, pair in summary.pairs.items():
        if pair.sets:
            panels = [
                Pair(names[OURS], names[rival], pair.ours[what], pair.theirs[what], what == "log_loss", title)
                for what, title in (("log_loss", "Log-loss"), ("accuracy", "Accuracy"))
            ]
            found[f"against_{rival}"] = Drawing(
                partial(scatter_figure, panels),
                f"BayesianSVC against {names[rival]} on {many(len(pair.sets), 'set')}, a dot per set: "
                "log-loss, where dots below the line are ours, and accuracy, where dots above it are.",
            )
    if any(s.fits for s in summary.sets):
        found["times"] = Drawing(
            partial(times_figure, [s.rows for s in summary.sets], _times(summary)),
            "Training time of one fold against the rows of the set, both on logarithmic axes.",
        )
    return found


def _ranks(standing: Standing, stem: str, whose: str) -> dict[str, Drawing]:
    found = {}
    for what, words in _SCORES:
        comparison = standing.ranks(what)
        found[f"{stem}_{what}"] = Drawing(
            partial(critical_difference_figure, comparison, titles(), OURS),
            f"Mean ranks by {words} {whose} on {many(comparison.n_sets, 'set')}.",
        )
    return found


def _times(summary: ContestSummary) -> dict[str, list[float]]:
    """Mean seconds of a fit by title, one value a set; NaN where there is none on the machine."""
    return {
        titles()[m]: [summary.mean_seconds(s, m) if m in s.fits else _NO for s in summary.sets]
        for m in summary.known
    }


_CONTENTS = (
    ("tests", "Every rival"),
    ("ranks", "All together"),
    ("pairs", "Set against set"),
    ("areas", "Two classes"),
    ("times", "What it costs"),
    ("log_loss_sets", "Set by set: log-loss"),
    ("accuracy_sets", "Set by set: accuracy"),
    ("gaps", "What is missing or failed"),
    ("method", "How it was measured"),
)


def report(results: Sequence[Result]) -> Report:
    """What the results say."""
    summary = summarise(results)
    numbers = summary.as_dict()
    context, table = partial(_context, summary, numbers), partial(tidy_csv, results)
    return Report(numbers, _facts(numbers), drawings(summary), "contest.html", context, table)


def _context(summary: ContestSummary, numbers: dict[str, Any], figures: Mapping[str, str]) -> dict[str, Any]:
    names = titles()
    there = {
        "tests": bool(summary.pairs),
        "ranks": bool(numbers["n_sets"]),
        "pairs": any(name.startswith("against_") for name in figures),
        "areas": any(s.classes == 2 and s.fits for s in summary.whole),
        "times": "times" in figures,
        "log_loss_sets": bool(summary.sets),
        "accuracy_sets": bool(summary.sets),
    }
    return {
        "contents": [item for item in _CONTENTS if there.get(item[0], True)],
        "key_figures": _key_figures(numbers),
        "titles": names,
        "tests": rivals_table(numbers),
        "medians": medians_table(numbers),
        "ranked": models_table(numbers, summary.ranked),
        "every": models_table(numbers["every_model"], list(summary.known)),
        "more": len(summary.known) > len(summary.ranked) and bool(numbers["every_model"]["n_sets"]),
        "areas": areas_table(summary),
        "log_loss_sets": sets_table(summary, "log_loss"),
        "accuracy_sets": sets_table(summary, "accuracy"),
        "olson_seed": OLSON_SEED,
        "catboost_limit": f"{CATBOOST_LIMIT_S:g}",
        "limit": f"{COMPETITOR_LIMIT_S:g}",
        "part_rows": f"{PART_ROWS:,}",
        "part_folds": PART_FOLDS,
        "without_catboost": [s.name for s in summary.whole if "catboost" in s.gaps],
    }


def _key_figures(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    """Numbers to remember and what they are."""
    found = []
    for what, words in _SCORES:
        rank = numbers["rank"][what].get(OURS)
        if rank is not None:
            models, sets = len(numbers["ranked"]), many(numbers["rank_n_sets"][what], "set")
            found.append((f"{rank:.2f}", f"mean rank by {words} among {many(models, 'model')} on {sets}"))
    if numbers["pairs"]:
        for what, words in _SCORES:
            verdicts = [_verdict(numbers, m, what) for m in numbers["pairs"]]
            for sign, how in ((1, "worse"), (-1, "better")):
                n = verdicts.count(sign)
                if n or sign > 0:  # how many are better is said if any is
                    said = f"rivals with significantly {how} {words} (Holm, 5 %)"
                    found.append((f"{n} of {len(verdicts)}", said))
    return found


def _facts(numbers: dict[str, Any]) -> list[tuple[str, ...]]:
    """The most important numbers as lines for the terminal."""
    rows: list[tuple[str, ...]] = [("fits", str(numbers["n_fits"]))]
    for what, words in (("log_loss", "log-loss"), ("accuracy", "accuracy"), ("auc", "AUC")):
        ranks = {m: v for m, v in numbers["rank"][what].items() if v is not None}
        if len(ranks) > 1:
            n_sets = many(numbers["rank_n_sets"][what], "set")
            rows.append((f"rank by {words}", f"{in_order(ranks)} on {n_sets}"))
    for rival, pair in numbers["pairs"].items():
        scores = [
            f"{name} {pair[what]['wins']}–{pair[what]['losses']} (p {p_words(numbers['p'][what][rival])})"
            for what, name in _SCORES
        ]
        rows.append((f"against {rival}", f"{', '.join(scores)} on {many(pair['n_sets'], 'set')}"))
    times = {m: v for m, v in numbers["time"]["geometric_mean"].items() if v is not None}
    if times:
        ordered = sorted(times.items(), key=lambda item: item[1])
        rows.append(("time of a fit", ", ".join(f"{m} {seconds(v)}" for m, v in ordered)))
    if numbers["fewer_folds"]:
        n = len(numbers["fewer_folds"])
        rows.append(("folds", f"fewer than ten on {many(n, 'set')}; --json lists them"))
    if numbers["not_finished"]:
        n = len(numbers["not_finished"])
        rows.append(("not finished", f"by some model on {many(n, 'set')}; --json lists them"))
    return rows + [("note", str(note)) for note in numbers["notes"]]
