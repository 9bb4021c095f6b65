"""The study of active learning: policies that share rows, splits and model, on the paper's 68 sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bayesvm_studies.study import Study, option

if TYPE_CHECKING:
    from bayesvm_studies.page import Report
    from bayesvm_studies.results import Result
    from bayesvm_studies.runner import Plan

# The paper's number of queries; shorter runs are marked.
QUERIES = 100
SEEDS = 5


@dataclass(frozen=True)
class ActiveSettings:
    """What a user may choose.

    Attributes
    ----------
    group : str
        "all" or some parts with commas between them.
    subset : str
        "small", "all" or names of sets with commas.
    policies, models : str or None
        Names with commas; None: all.
    seeds : int
        At most so many of each model.
    queries : int
    """

    group: str = option(
        "all", "sets, poker (the million-row pool), clock (a round on it); or all.", metavar="PARTS"
    )
    subset: str = option("all", "small (up to 1500 rows), all, or names with commas.", metavar="SETS")
    policies: str | None = option(
        None, "variation_ratio, softmax_entropy, margin, bald, random [default: all]", metavar="NAMES"
    )
    models: str | None = option(
        None, "default, random_forest, svc, paper, dense [default: all]", metavar="NAMES"
    )
    seeds: int = option(SEEDS, "At most so many seeds of each model.", min=1)
    queries: int = option(QUERIES, "Labels asked for; fewer than 100 are marked in the results.", min=1)


def _plan(settings: ActiveSettings, data: Path | None, results: Path) -> Plan:
    from bayesvm_studies.active.plan import make_plan

    return make_plan(settings, data)


def _report(results: Sequence[Result]) -> Report:
    from bayesvm_studies.active.report import report

    return report(results)


ACTIVE = Study(
    "active",
    "Compare query policies on the paper's 68 sets; the same command goes on where it was stopped.",
    "Ranks of policies, budget curves and times: a page, figures, a summary, a table.",
    "Folder of PMLB sets [default: BAYESVM_DATA, or a download]",
    ActiveSettings,
    _plan,
    _report,
)
