"""How long an epoch takes with our head and with a softmax layer, in turns in one process."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bayesvm.nn import train
from bayesvm_studies.images.arrays import read_images
from bayesvm_studies.images.evaluate import rounded
from bayesvm_studies.images.models import build_model
from bayesvm_studies.images.recipes import HEADS
from bayesvm_studies.images.spool import SYNTHETIC
from bayesvm_studies.images.trained import device_of, make_recipe


def time_one(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Fields of a result: ``extra["epoch_s"]`` holds the seconds of epochs by head.

    Heads take turns, so that a machine that gets slower does so for all of
    them. Every turn trains two epochs and the second counts: the first pays
    for what is compiled, captured or chosen at first use. A first round is
    not counted at all.
    """
    arguments = task["config"]["arguments"]
    device = device_of(arguments)
    X, y, n_classes = _rows(arguments, folder, device)
    models = {}
    for head in arguments["heads"]:
        options = dict(HEADS[head].arguments)
        if "n_inducing" in options:
            options["n_inducing"] = arguments["n_inducing"]
        described = {**arguments, "head": HEADS[head].estimator, "head_arguments": options}
        models[head] = build_model({**described, "dropout": 0.0}, n_classes, device)
    found: dict[str, list[float]] = {head: [] for head in models}
    recipe = make_recipe(arguments, epochs=2)
    for turn in range(arguments["rounds"] + 1):
        for head, model in models.items():
            epochs = train(model.network, model.head, X, y, recipe)
            if turn > 0:
                found[head].append(epochs[-1].seconds)
    medians = {head: statistics.median(seconds) for head, seconds in found.items()}
    extra = {"epoch_s": found, "ratio": {h: m / medians["softmax"] for h, m in medians.items()}}
    return {"n_train": len(y), "n_classes": n_classes, "extra": rounded(extra)}


def _rows(arguments: dict[str, Any], folder: Path, device: torch.device) -> tuple[Tensor, Tensor, int]:
    n_rows = arguments["limit_rows"] or arguments["n_rows"]
    if folder.name != SYNTHETIC:
        images = read_images(folder, device, n_rows)
        return images.train_X, images.train_y, images.n_classes
    # An image per class, and noise: in noise alone a network finds nothing to tell rows apart by.
    n_classes = arguments["n_classes"]
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n_rows) % n_classes
    of_class = torch.randint(0, 128, (n_classes, 3, 32, 32), generator=generator, dtype=torch.uint8)
    noise = torch.randint(0, 128, (n_rows, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return (of_class[y] + noise).to(device), y.to(device), n_classes
