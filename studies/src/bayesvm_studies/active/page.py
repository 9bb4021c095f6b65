"""One HTML file from a summary of the experiment on active learning."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bayesvm_studies.active.drawings import active_drawings
from bayesvm_studies.active.page_tables import area_table, pair_table, policy_table, set_table
from bayesvm_studies.active.roster import (
    CLOCK_THREADS,
    N_INDUCING,
    POKER_TEST_ROWS,
    POOL_ROWS,
    QUERIES,
    TEST_ROWS,
)
from bayesvm_studies.active.summary import BUDGETS, ActiveSummary
from bayesvm_studies.rendering import inline_figures, render_page, save_drawings


def write_active_page(summary: ActiveSummary, path: str | os.PathLike[str]) -> Path:
    """Write the page; never half-written.

    Parameters
    ----------
    summary : ActiveSummary
    path : path-like
    """
    return render_page("active.html", _context(summary), path)


def save_active_figures(summary: ActiveSummary, folder: str | os.PathLike[str]) -> list[Path]:
    """Write every figure as SVG and as PNG."""
    return save_drawings(active_drawings(summary), folder)


def _context(summary: ActiveSummary) -> dict[str, Any]:
    from bayesvm_studies.active.paper_recipe import EPOCHS_PER_QUERY

    numbers, figures = summary.as_dict(), inline_figures(active_drawings(summary))
    return {
        "contents": _contents(summary, figures),
        "figures": figures,
        "numbers": numbers,
        "key_figures": _key_figures(numbers),
        "notes": summary.notes,
        "pair": pair_table(summary, "default"),
        "paper_pair": pair_table(summary, "paper"),
        "policies": policy_table(summary),
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


def _contents(summary: ActiveSummary, figures: dict[str, str]) -> list[tuple[str, str]]:
    there = {
        "pair": "pair_ranks" in figures,
        "policies": "policy_ranks" in figures,
        "margin": summary.duel is not None,
        "beyond": "budget_curves" in figures,
        "poker": "poker" in figures or summary.clock is not None,
        "sets": bool(summary.entrants),
        "gaps": True,
        "method": True,
    }
    titles = {
        "pair": "The paper's comparison",
        "policies": "More policies",
        "margin": "Where margin sampling wins",
        "beyond": "What a budget buys",
        "poker": "Poker: a pool of a million rows",
        "sets": "Set by set",
        "gaps": "What is missing or failed",
        "method": "How it was measured",
    }
    return [(name, titles[name]) for name, present in there.items() if present]


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
