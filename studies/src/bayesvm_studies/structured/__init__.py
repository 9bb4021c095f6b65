"""The study of structured data: the paper's 68 sets under its protocol and under ten folds."""

from __future__ import annotations

from dataclasses import dataclass

from bayesvm_studies.study import Study, option


@dataclass(frozen=True)
class StructuredSettings:
    """What a user may choose, as the help of every option says.

    All sets of Olson's protocol are without poker, of which no accuracy is published and only a part is
    real. ``timeout`` is that of every model, 0 for no limit; without it competitors have 600 seconds.
    Epochs that ``shorten`` gives are the same for all models, and at most the paper's thousand.
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


STRUCTURED = Study(
    "structured",
    "Fit all models to the paper's 68 sets; the same command goes on where it was stopped.",
    "Ranks, times and calibration from the results: a page, figures, a summary, a table.",
    "Folder of PMLB sets [default: BAYESVM_DATA, or a download]",
    StructuredSettings,
)
