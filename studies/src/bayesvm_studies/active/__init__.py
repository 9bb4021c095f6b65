"""The study of active learning: policies that share rows, splits and model, on the paper's 68 sets."""

from __future__ import annotations

from dataclasses import dataclass

from bayesvm_studies.study import Study, option

# The paper's number of queries; shorter runs are marked.
QUERIES = 100
SEEDS = 5


@dataclass(frozen=True)
class ActiveSettings:
    """What a user may choose, as the help of every option says."""

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


ACTIVE = Study(
    "active",
    "Compare query policies on the paper's 68 sets; the same command goes on where it was stopped.",
    "Ranks of policies, budget curves and times: a page, figures, a summary, a table.",
    "Folder of PMLB sets [default: BAYESVM_DATA, or a download]",
    ActiveSettings,
)
