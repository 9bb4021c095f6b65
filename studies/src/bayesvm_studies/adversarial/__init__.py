"""The study of adversarial images: the networks of the study of images under attack, and who notices."""

from __future__ import annotations

from dataclasses import dataclass

from bayesvm_studies.study import Study, option


@dataclass(frozen=True)
class AdversarialSettings:
    """What a user may choose, as the help of every option says."""

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


ADVERSARIAL = Study(
    "adversarial",
    "Attack the networks of reproduce images and try to tell; goes on where it was stopped.",
    "Accuracy and detection under attack: a page, figures, a summary, a table.",
    "Folder of image sets [default: BAYESVM_IMAGES, or a download]",
    AdversarialSettings,
)
