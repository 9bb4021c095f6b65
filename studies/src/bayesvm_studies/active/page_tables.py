"""The tables of the page: policies over all sets, other models, and sets one by one."""

from __future__ import annotations

import numpy as np

from bayesvm_studies.active.roster import title_of
from bayesvm_studies.active.summary import BUDGETS, ActiveSummary
from bayesvm_studies.page_tables import Cell, Line, Table

_OURS = "default/variation_ratio"


def pair_table(summary: ActiveSummary, model: str) -> Table:
    """The paper's two policies."""
    return _rank_table(summary, summary.pair(model))


def policy_table(summary: ActiveSummary) -> Table:
    """All policies under the default recipe."""
    return _rank_table(summary, summary.policies)


def _rank_table(summary: ActiveSummary, entrants: list[str]) -> Table:
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
    for k, e in sorted(enumerate(entrants), key=lambda item: -areas.get(_key(item[1]), 0.0)):
        if not areas:
            break
        value = areas[_key(e)]
        cells = [Cell(f"{value:.4f}", value == max(areas.values()))]
        cells += [Cell(f"{by_seed[:, k, n].mean():.4f}") for n in budgets]
        cells.append(Cell(f"{rounds[_key(e)]:.0f} ms"))
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


def _key(name: str) -> str:
    return name.removeprefix("default/")
