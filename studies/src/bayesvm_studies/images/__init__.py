"""The study of images: the paper's networks and a residual one, with softmax and Bayesian heads."""

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
class ImageSettings:
    """What a user may choose.

    Attributes
    ----------
    group : str
        "all" or some parts with commas between them.
    subset : str
        "all" or data sets with commas between them.
    models : str or None
        Heads and what is made of them, with commas; None: all.
    seeds : int or None
        At most so many of each head.
    epochs : int or None
        Instead of the recipe's; marked in the results.
    limit_rows : int or None
        At most so many rows of every kind; marked in the results.
    device : str
    compile : str or None
        Mode of ``torch.compile`` for networks and heads.
    keep : str or None
        Folder in which trained models are kept; None: beside the results.
    """

    group: str = option("all", "mnist, cifar10, cifar10_residual, warmup, timing; or all.", metavar="PARTS")
    subset: str = option("all", "mnist, cifar10 or all.", metavar="SETS")
    models: str | None = option(
        None,
        "softmax, bayesvm, bayesvm_adam, mc_dropout, laplace, ensemble [default: all]",
        metavar="NAMES",
    )
    seeds: int | None = option(None, "At most so many seeds of each model [default: 3]", min=1)
    epochs: int | None = option(None, "Instead of the recipe's; marked in the results.", min=1)
    limit_rows: int | None = option(
        None, "Use only so many rows; marked in the results.", min=20, metavar="N"
    )
    device: str = option("cpu", "Where networks are trained, such as cuda.")
    compile: str | None = option(
        None, "Mode of torch.compile, such as default [default: none]", metavar="MODE"
    )
    keep: str | None = option(None, "Folder for trained models [default: RESULTS.models]", metavar="DIR")


def _plan(settings: ImageSettings, data: Path | None, results: Path) -> Plan:
    from bayesvm_studies.images.plan import make_plan

    return make_plan(settings, data, results)


def _report(results: Sequence[Result]) -> Report:
    from bayesvm_studies.images.report import report

    return report(results)


IMAGES = Study(
    "images",
    "Train the paper's networks with softmax and Bayesian heads; goes on where it was stopped.",
    "Accuracy, calibration, doubt and times of the networks: a page, figures, a summary, a table.",
    "Folder of image sets [default: BAYESVM_IMAGES, or a download]",
    ImageSettings,
    _plan,
    _report,
)
