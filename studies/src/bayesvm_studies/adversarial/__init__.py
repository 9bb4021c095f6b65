"""The study of adversarial images: the networks of the study of images under attack, and who notices."""

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
class AdversarialSettings:
    """What a user may choose.

    Attributes
    ----------
    group : str
        "all" or some networks (groups of the study of images) with commas.
    models : str or None
        Names with commas; None: all.
    attacks : str
        "all" or some with commas.
    seeds : int or None
        At most so many of each model.
    models_from : str
        Folder of trained models; those that it lacks are trained with the
        same recipes and kept there.
    epochs : int or None
        Of models that are missing and trained here, instead of the recipe's; marked in the results.
    limit_rows : int or None
        At most so many rows of every kind, for attacks and for models trained here; marked in the results.
    device : str
    """

    group: str = option("all", "mnist, cifar10, cifar10_residual; or all.", metavar="NETWORKS")
    models: str | None = option(
        None,
        "bayesvm, bayesvm_adam, softmax, softmax_tempered, ensemble, mc_dropout [default: all]",
        metavar="NAMES",
    )
    attacks: str = option("all", "fgsm, pgd, adaptive, mimic; or all.", metavar="NAMES")
    seeds: int | None = option(None, "At most so many seeds of each model [default: 3]", min=1)
    models_from: str = option(
        "results/images.models", "Models kept by reproduce images; missing ones are trained.", metavar="DIR"
    )
    epochs: int | None = option(None, "Of missing models; marked in the results.", min=1)
    limit_rows: int | None = option(
        None, "Use only so many rows; marked in the results.", min=20, metavar="N"
    )
    device: str = option("cpu", "Where networks compute, such as cuda.")


def _plan(settings: AdversarialSettings, data: Path | None, results: Path) -> Plan:
    from bayesvm_studies.adversarial.plan import make_plan

    return make_plan(settings, data)


def _report(results: Sequence[Result]) -> Report:
    from bayesvm_studies.adversarial.report import report

    return report(results)


ADVERSARIAL = Study(
    "adversarial",
    "Attack the networks of reproduce images and try to tell; goes on where it was stopped.",
    "Accuracy and detection under attack: a page, figures, a summary, a table.",
    "Folder of image sets [default: BAYESVM_IMAGES, or a download]",
    AdversarialSettings,
    _plan,
    _report,
)
