"""The contest: the default model against the best untuned models for tables, over ten folds, with tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bayesvm_studies.study import Study, option


@dataclass(frozen=True)
class ContestSettings:
    """What a user may choose, as the help of every option says.

    ``timeout`` is that of every model, 0 for no limit; without it CatBoost has 120 seconds, other
    competitors have 600, and BayesianSVC has no limit.
    """

    binary: Path | None = option(
        None, "Folder of the sets of two classes [default: pmlb_binary beside the other]", metavar="DIR"
    )
    subset: str = option(
        "all", "all, small (up to 1500 rows), multi_class, two_class, or names with commas.", metavar="SETS"
    )
    models: str | None = option(None, "Models with commas [default: all installed]", metavar="NAMES")
    folds: int | None = option(None, "Only the first of the ten folds [default: all]", min=1, max=10)
    timeout: float | None = option(
        None, "Limit of every fit, 0 for none [default: CatBoost 120, other competitors 600]", min=0.0
    )


CONTEST = Study(
    "contest",
    "Fit the default model and its rivals to 72 sets; the same command goes on where it was stopped.",
    "Tests of every rival, ranks, scatter plots and times from the results: a page, figures, a summary.",
    "Folder of PMLB sets [default: BAYESVM_DATA, or a download]",
    ContestSettings,
)
