"""Tables, figures and page of the study of active learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bayesvm_studies.active import QUERIES
from bayesvm_studies.active.plan import (
    CLOCK_THREADS,
    EPOCHS_PER_QUERY,
    MODELS,
    N_INDUCING,
    POKER_TEST_ROWS,
    POLICIES,
    POOL_ROWS,
    TEST_ROWS,
    title_of,
)
from bayesvm_studies.active.summary import BUDGETS, ActiveSummary, Curves, Duel, policy_key, summarise_active
from bayesvm_studies.figures import BandPanel, Pair, bands_figure, scatter_figure
from bayesvm_studies.page import Cell, Drawing, Line, Report, Table, in_order
from bayesvm_studies.results import Result, tidy_csv

_OURS = "default/variation_ratio"


def rank_table(summary: ActiveSummary, entrants: list[str]) -> Table:
    """Mean ranks at the budgets with the spread over seeds, the best marked."""
    by_seed = np.array(list(summary.sets.mean_ranks(entrants).values()))
    budgets = [n for n in BUDGETS if n <= summary.sets.n_queries] if len(by_seed) else []
    lines = []
    for k, e in enumerate(entrants):
        cells = []
        for n in budgets:
            mean = by_seed[:, :, n].mean(0).round(3)
            spread = f"± {by_seed[:, k, n].std(ddof=1):.2f}" if len(by_seed) > 1 else ""
            cells.append(Cell(f"{mean[k]:.2f}", bool(mean[k] == mean.min()), spread))
        if cells:
            lines.append(Line(title_of(e), cells, ours=e == _OURS))
    return Table([f"After {n}" for n in budgets], lines)


def area_table(summary: ActiveSummary) -> Table:
    """Every model and policy: area, accuracy at the budgets, milliseconds of a round."""
    entrants = summary.compared
    numbers = summary.as_dict()
    areas, rounds = numbers["area_under_curve"], numbers["round_ms"]
    by_seed = np.array(list(summary.sets.mean_accuracy(entrants).values()))
    budgets = [n for n in BUDGETS if n <= summary.sets.n_queries] if len(by_seed) else []
    lines = []
    for k, e in sorted(enumerate(entrants), key=lambda item: -areas.get(policy_key(item[1]), 0.0)):
        if not areas:
            break
        value = areas[policy_key(e)]
        cells = [Cell(f"{value:.4f}", value == max(areas.values()))]
        cells += [Cell(f"{by_seed[:, k, n].mean():.4f}") for n in budgets]
        cells.append(Cell(f"{rounds[policy_key(e)]:.0f} ms"))
        lines.append(Line(title_of(e), cells, ours=e == _OURS))
    return Table(["Area", *(f"After {n}" for n in budgets), "Round"], lines)


def set_table(summary: ActiveSummary) -> Table:
    """Area under the curve of every entrant on every set; the best policy of the default recipe is marked."""
    entrants = summary.entrants
    areas = {e: summary.sets.areas(e) for e in entrants}
    lines = []
    for name in dict.fromkeys(name for of_sets in areas.values() for name in of_sets):
        ours = [round(areas[e][name], 3) for e in summary.policies if name in areas[e]]
        cells = []
        for e in entrants:
            value = areas[e].get(name, np.nan)
            best = e in summary.policies and bool(ours) and round(value, 3) == max(ours)
            last = [c[-1] for (data, _), c in summary.sets.errors[e].items() if data == name]
            small = f"{1.0 - np.mean(last):.3f} at the end" if last else ""
            cells.append(Cell(f"{value:.3f}" if np.isfinite(value) else "–", best, small))
        lines.append(Line(name, cells))
    return Table([title_of(e) for e in entrants], sorted(lines))


_ORDER = list(POLICIES.values())
_QUERIES = "Queries"


def active_drawings(summary: ActiveSummary) -> dict[str, Drawing]:
    """Figures for which there are results."""
    found: dict[str, Drawing] = {}
    pairs = [
        _rank_panel(summary.sets, summary.pair(m), MODELS[m].title)
        for m in ("default", "paper")
        if summary.sets.places(summary.pair(m))
    ]
    if pairs:
        found["pair_ranks"] = Drawing(
            partial(bands_figure, pairs, order=_ORDER),
            "Mean rank by test error of variation ratio and entropy against the number of queries.",
        )
    if len(summary.policies) > 2 and summary.sets.places(summary.policies):
        ranks = _rank_panel(summary.sets, summary.policies)
        found["policy_ranks"] = Drawing(
            partial(bands_figure, [ranks], order=_ORDER),
            "Mean rank by test error of all policies against the number of queries.",
        )
    if summary.sets.places(summary.compared):
        accuracy = _accuracy_panel(summary.sets, summary.compared)
        found["budget_curves"] = Drawing(
            partial(bands_figure, [accuracy], order=_ORDER),
            "Mean test accuracy over the sets against the number of queries.",
        )
    if summary.poker.errors:
        poker = _poker_panel(summary)
        found["poker"] = Drawing(
            partial(bands_figure, [poker], order=_ORDER),
            "Test error of poker against the number of queries on the whole pool.",
        )
    fought = summary.duel
    if fought is not None:
        found["margin_areas"] = Drawing(
            partial(scatter_figure, [_duel_pair(fought)]),
            "Area under the budget curve of margin sampling against the variation ratio, a dot per set.",
        )
    return found


def _rank_panel(curves: Curves, entrants: Sequence[str], title: str = "") -> BandPanel:
    """Policies under one model, which the title names."""
    by_seed = np.array(list(curves.mean_ranks(entrants).values()))
    n_sets = len({name for name, _ in curves.places(entrants)})
    named = [POLICIES[e.partition("/")[2]] for e in entrants]
    return BandPanel(
        _QUERIES,
        "Mean rank by test error",
        {name: by_seed[:, k] for k, name in enumerate(named)},
        title=f"{title}, {n_sets} sets" if title else "",
    )


def _accuracy_panel(curves: Curves, entrants: Sequence[str]) -> BandPanel:
    by_seed = np.array(list(curves.mean_accuracy(entrants).values()))
    named = {title_of(e): by_seed[:, k] for k, e in enumerate(entrants)}
    return BandPanel(_QUERIES, "Mean test accuracy", named)


def _poker_panel(summary: ActiveSummary) -> BandPanel:
    level = None
    if summary.everything:
        level = (float(np.mean(list(summary.everything.values()))), "Trained on the whole pool")
    curves = {title_of(e): np.array(list(c.values())) for e, c in summary.poker.errors.items()}
    return BandPanel(_QUERIES, "Test error", curves, level)


def _duel_pair(fought: Duel) -> Pair:
    """The first against the second: above the line the first is better."""
    first, second = zip(*fought.areas.values(), strict=True)
    return Pair(title_of(fought.first), title_of(fought.second), list(first), list(second))


def report(results: Sequence[Result]) -> Report:
    """What the results say."""
    summary = summarise_active(results)
    numbers = summary.as_dict()
    context, table = partial(_context, summary, numbers), partial(tidy_csv, results)
    return Report(numbers, _facts(numbers), active_drawings(summary), "active.html", context, table)


def _context(summary: ActiveSummary, numbers: dict[str, Any], figures: Mapping[str, str]) -> dict[str, Any]:
    return {
        "contents": _contents(summary, figures),
        "key_figures": _key_figures(numbers),
        "pair": rank_table(summary, summary.pair("default")),
        "paper_pair": rank_table(summary, summary.pair("paper")),
        "policies": rank_table(summary, summary.policies),
        "areas": area_table(summary),
        "sets": set_table(summary),
        "duel": numbers["margin_against_variation_ratio"],
        "queries": QUERIES,
        "n_inducing": N_INDUCING,
        "pool_rows": POOL_ROWS,
        "test_rows": TEST_ROWS,
        "poker_test_rows": POKER_TEST_ROWS,
        "clock_threads": CLOCK_THREADS,
        "epochs_per_query": EPOCHS_PER_QUERY,
    }


def _contents(summary: ActiveSummary, figures: Mapping[str, str]) -> list[tuple[str, str]]:
    sections = [
        ("pair", "The paper's comparison", "pair_ranks" in figures),
        ("policies", "More policies", "policy_ranks" in figures),
        ("margin", "Where margin sampling wins", summary.duel is not None),
        ("beyond", "What a budget buys", "budget_curves" in figures),
        ("poker", "Poker: a pool of a million rows", "poker" in figures or summary.clock is not None),
        ("sets", "Set by set", bool(summary.entrants)),
        ("gaps", "What is missing or failed", True),
        ("method", "How it was measured", True),
    ]
    return [(name, title) for name, title, present in sections if present]


def _key_figures(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    """Numbers to remember and what they are."""
    found: list[tuple[str, str]] = []
    last = next((str(n) for n in reversed(BUDGETS) if n <= numbers["n_queries"]), None)
    pair = numbers["mean_rank_of_pair"]
    if pair and last:
        ratio, entropy = (pair[p][last] for p in ("variation_ratio", "softmax_entropy"))
        words = f"mean rank of the variation ratio after {last} queries, entropy {entropy:.2f}"
        found.append((f"{ratio:.2f}", words))
    fought = numbers["margin_against_variation_ratio"]
    if fought:
        words = "sets on which margin sampling beats, and loses to, the variation ratio by area"
        found.append((f"{fought['wins']} : {fought['losses']}", words))
    if numbers["round_seconds_1m"] is not None:
        found.append((f"{numbers['round_seconds_1m']:.2f} s", "a round on a pool of a million rows"))
    return found


def _facts(numbers: dict[str, Any]) -> list[tuple[str, ...]]:
    """The most important numbers as lines for the terminal."""
    rows: list[tuple[str, ...]] = [("runs", str(numbers["n_runs"]))]
    for key, what in (("mean_rank", "mean rank"), ("mean_rank_of_pair", "rank of the pair")):
        for budget in map(str, BUDGETS):
            known = {p: r[budget] for p, r in numbers[key].items() if r[budget] is not None}
            if known:
                rows.append((f"{what}, {budget} queries", in_order(known)))
    if numbers["area_under_curve"]:
        areas = in_order(numbers["area_under_curve"], 4, best=-1)
        rows.append(("area under the curve", f"{areas} on {numbers['area_n_sets']} sets"))
    if numbers["round_seconds_1m"] is not None:
        rows.append(("a round, a million rows", f"{numbers['round_seconds_1m']:.2f} s"))
    if numbers["failed"]:
        rows.append(("failed", f"{len(numbers['failed'])}; --json lists them"))
    return rows + [("note", str(note)) for note in numbers["notes"]]
