"""The study of images: the paper's networks and a residual one, with softmax and Bayesian heads."""

from __future__ import annotations

from dataclasses import dataclass

from bayesvm_studies.study import Study, option


@dataclass(frozen=True)
class ImageSettings:
    """What a user may choose, as the help of every option says."""

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


IMAGES = Study(
    "images",
    "Train the paper's networks with softmax and Bayesian heads; goes on where it was stopped.",
    "Accuracy, calibration, doubt and times of the networks: a page, figures, a summary, a table.",
    "Folder of image sets [default: BAYESVM_IMAGES, or a download]",
    ImageSettings,
)
