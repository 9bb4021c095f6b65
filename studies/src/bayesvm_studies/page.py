"""One HTML file from a summary: it needs nothing else and asks no server for anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bayesvm_studies.datasets import CITATION
from bayesvm_studies.drawings import drawings
from bayesvm_studies.page_tables import (
    olson_models,
    olson_sets,
    paper_models,
    paper_sets_table,
    published_table,
)
from bayesvm_studies.protocols import OLSON_SEED, PAPER_SEED
from bayesvm_studies.rendering import inline_figures, render_page
from bayesvm_studies.summary import Summary

_CONTENTS = (
    ("paper", "The paper's protocol"),
    ("olson", "Against what people use"),
    ("reliability", "Are the probabilities right?"),
    ("paper_sets", "Set by set: the paper's protocol"),
    ("olson_sets", "Set by set: ten folds"),
    ("gaps", "What is missing or failed"),
    ("method", "How it was measured"),
)


def write_page(summary: Summary, path: str | os.PathLike[str]) -> Path:
    """Write the page.

    Parameters
    ----------
    summary : Summary
    path : str or path-like
        The file to write; never half-written.
    """
    return render_page("structured.html", _context(summary), path)


def _context(summary: Summary) -> dict[str, Any]:
    figures = inline_figures(drawings(summary))
    numbers = summary.as_dict()
    contents = [item for item in _CONTENTS if _has(item[0], summary, figures)]
    return {
        "contents": contents,
        "figures": figures,
        "numbers": numbers,
        "key_figures": _key_figures(numbers),
        "notes": summary.notes,
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


def _has(section: str, summary: Summary, figures: dict[str, str]) -> bool:
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
