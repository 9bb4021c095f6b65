"""Train one model, follow it epoch by epoch, keep it and score it."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bayesvm.nn import Epoch, Recipe, train
from bayesvm_studies.images.arrays import Images, models_folder, read_images
from bayesvm_studies.images.evaluate import evaluate, rounded
from bayesvm_studies.images.models import Model, build_model, model_file, save_model
from bayesvm_studies.images.predict import evaluated, output_of

_REPEATS = 3


def device_of(arguments: dict[str, Any]) -> torch.device:
    """The device of a task; on a GPU convolutions are tried out once and the fastest kernel is kept."""
    device = torch.device(arguments["device"])
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    return device


def make_recipe(arguments: dict[str, Any], **instead: Any) -> Recipe:
    """The recipe that the arguments of a task describe."""
    augment = None
    if arguments["augment"]:
        from bayesvm_studies.images.augmentation import CropFlipCutout

        augment = CropFlipCutout()
    seed = int(arguments["random_state"])
    return Recipe(**{**arguments["recipe"], "augment": augment, "seed": seed, **instead})


def train_one(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Fields of a result: curves in ``extra["epochs"]``, scores, times.

    The last epoch is what counts: the test rows are looked at after every
    epoch to draw curves, never to choose.
    """
    arguments = task["config"]["arguments"]
    device = device_of(arguments)
    images = read_images(folder, device, arguments["limit_rows"])
    arguments = _with_warmup(arguments, len(images.train_y))
    model = build_model(arguments, images.n_classes, device)
    path = model_file(models_folder(folder), task["protocol"], task["model"], task["split"], task["place"])
    # On a CPU an epoch may take many minutes; on a GPU writing all of Adam's state would take longer than it.
    unfinished = path.with_suffix(".unfinished") if device.type == "cpu" else None
    epochs = train(
        model.network,
        model.head,
        images.train_X,
        images.train_y,
        make_recipe(arguments),
        validation=(images.test_X, images.test_y),
        keep="last",
        checkpoint=unfinished,
    )
    known = _scored(model, images)
    model = model._replace(**{name: known["extra"].get(name, 1.0) for name in ("temperature", "spread")})
    save_model(path, model, images.n_classes)
    if unfinished is not None:
        shutil.rmtree(unfinished, ignore_errors=True)
    known["extra"]["epochs"] = rounded([_line(epoch) for epoch in epochs])
    known["extra"]["n_parameters"] = sum(
        p.numel() for part in (model.network, model.head) for p in part.parameters()
    )
    return {"n_train": len(images.train_y), "fit_s": sum(epoch.seconds for epoch in epochs), **known}


def _with_warmup(arguments: dict[str, Any], n_rows: int) -> dict[str, Any]:
    """Epochs of the warm-up as steps, which is what the head counts."""
    if not arguments["kl_warmup_epochs"]:
        return arguments
    steps = arguments["kl_warmup_epochs"] * -(-n_rows // arguments["recipe"]["batch_size"])
    return {**arguments, "head_arguments": {**arguments["head_arguments"], "kl_warmup": steps}}


def _line(epoch: Epoch) -> dict[str, Any]:
    line = asdict(epoch)
    for name in ("accuracy", "log_loss"):
        line[f"test_{name}"] = line.pop(f"validation_{name}")
    return line


def _scored(model: Model, images: Images) -> dict[str, Any]:
    with evaluated(model):
        known = evaluate(lambda X: output_of(model, X), images)
        known["predict_s"] = prediction_seconds(lambda: output_of(model, images.test_X), images)
    return known


def prediction_seconds(output: Any, images: Images) -> float:
    """Seconds to the probabilities of all test rows: the median of three, after those that were scored."""
    on_gpu = images.test_X.device.type == "cuda"
    found = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        output().probabilities()
        if on_gpu:
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return sorted(found)[_REPEATS // 2]
