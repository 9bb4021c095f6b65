"""The study of structured data: the paper's 68 sets under its protocol and under ten folds."""

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


@dataclass(frozen=True)
class StructuredSettings:
    """What a user may choose.

    Attributes
    ----------
    protocol : {"paper", "olson", "both"}
    subset : str
        "all", "small" (at most 1,500 rows) or names with commas between
        them. "all" of Olson's protocol is without poker, of which no
        accuracy is published and only a part is real.
    models : str or None
        Names with commas between them; None: all that can run here.
    folds : int or None
        Only the first of Olson's ten folds.
    timeout : float or None
        Seconds a fit may take, for every model, 0 for no limit; None: 600 for
        competitors, no limit for BayesianSVC and for the paper's recipe.
    device : str
        For the models of this library.
    shorten : tuple of str
        "SET=EPOCHS": epochs of the paper's recipe on a set of the run, the
        same for all models; at most the paper's thousand.
    """

    protocol: str = option("both", "paper (one split), olson (ten folds) or both.", metavar="NAME")
    subset: str = option("all", "small (up to 1500 rows), all, or names with commas.", metavar="SETS")
    models: str | None = option(None, "Models with commas [default: all installed]", metavar="NAMES")
    folds: int | None = option(None, "Only the first of the ten folds [default: all]", min=1, max=10)
    timeout: float | None = option(
        None, "Limit of every fit, 0 for none [default: 600 for competitors]", min=0.0, metavar="SECONDS"
    )
    device: str = option("cpu", "Where models of bayesvm compute, such as cuda.")
    shorten: tuple[str, ...] = option(
        (), "Fewer epochs of the paper's recipe; may be given again.", metavar="SET=EPOCHS"
    )


def _plan(settings: StructuredSettings, data: Path | None, results: Path) -> Plan:
    from bayesvm_studies.structured.plan import make_plan

    return make_plan(settings, data)


def _report(results: Sequence[Result]) -> Report:
    from bayesvm_studies.structured.report import report

    return report(results)


STRUCTURED = Study(
    "structured",
    "Fit all models to the paper's 68 sets; the same command goes on where it was stopped.",
    "Ranks, times and calibration from the results: a page, figures, a summary, a table.",
    "Folder of PMLB sets [default: BAYESVM_DATA, or a download]",
    StructuredSettings,
    _plan,
    _report,
)
