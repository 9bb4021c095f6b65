"""What a worker does for a task of the study of images: train, derive, time, score."""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.adversarial import roc_auc
from bayesvm.adversarial._model import joined_outputs
from bayesvm.nn import Epoch, Recipe, train
from bayesvm_studies.images.arrays import SYNTHETIC, Images, models_folder, read_images
from bayesvm_studies.images.heads import Output, SoftmaxOutput, calibrated, calibration_of
from bayesvm_studies.images.laplace import LastLayerLaplace
from bayesvm_studies.images.models import (
    Model,
    build_model,
    evaluated,
    features_of,
    load_model,
    model_file,
    output_of,
    save_model,
)
from bayesvm_studies.images.networks import CropFlipCutout
from bayesvm_studies.images.plan import HEADS, SCORES
from bayesvm_studies.results import Task, rounded
from bayesvm_studies.statistics import score_sums


def doubts(output: Output) -> dict[str, npt.NDArray[np.float64]]:
    """Every measure of doubt of every row; none that is the same for all rows."""
    found = {
        "entropy": output.entropy(),
        "log_variation_ratio": output.log_variation_ratio(),
        "mutual_information": output.mutual_information(),
        "largest_probability": -output.probabilities().amax(1),
    }
    return {
        name: value.double().cpu().numpy() for name, value in found.items() if bool((value != value[0]).any())
    }


def tell_apart(
    inside: Mapping[str, npt.NDArray[np.float64]], outside: Mapping[str, npt.NDArray[np.float64]]
) -> dict[str, float]:
    """Area under the ROC curve of each measure: how often a row from elsewhere is the more doubtful one."""
    return {s: roc_auc(inside[s], outside[s]) for s in SCORES if s in inside and s in outside}


def evaluate(output_of: Callable[[Tensor], Output], images: Images) -> dict[str, Any]:
    """Fields of a result that are scores.

    Parameters
    ----------
    output_of : callable
        From images to the model's output as it was trained.
    images : Images

    Returns
    -------
    dict
        Sums over the test rows as the results of all experiments have them,
        and in ``extra`` the same as calibrated on held-out rows
        (``tempered``), that ``temperature``, for our head the ``spread``,
        and by the name of a set from
        elsewhere and of a measure of doubt the area under the ROC curve
        (``ood``, ``ood_tempered``).
    """
    held = output_of(images.held_X)
    own = float(held.temperature)  # type: ignore[attr-defined]
    fitted = calibration_of(held, images.held_y)
    test = output_of(images.test_X)
    y = images.test_y.cpu().numpy()
    classes = np.arange(images.n_classes)
    sums: dict[str, Any] = {}
    ood: dict[str, dict[str, dict[str, float]]] = {}
    outside = {name: output_of(X) for name, X in images.elsewhere.items()}
    ends = list(itertools.accumulate(len(X) for X in images.elsewhere.values()))
    slices = [slice(*bounds) for bounds in itertools.pairwise([0, *ends])]
    for kind, calibration in (("plain", {}), ("tempered", fitted)):
        at = calibrated(test, calibration)
        sums[kind] = score_sums(y, at.probabilities().double().cpu().numpy(), classes)
        ood[kind] = {}
        if outside:
            inside, all_outside = (
                doubts(at),
                doubts(calibrated(joined_outputs(list(outside.values())), calibration)),
            )
            for name, rows in zip(outside, slices, strict=True):
                ood[kind][name] = tell_apart(inside, {score: v[rows] for score, v in all_outside.items()})
    extra = {
        "own_temperature": own,
        **fitted,
        "tempered": sums["tempered"],
        "ood": ood["plain"],
        "ood_tempered": ood["tempered"],
    }
    return {
        **sums["plain"],
        "n_features": int(np.prod(images.test_X.shape[1:])),
        "n_classes": images.n_classes,
        "extra": rounded(extra, null=False),
    }


_REPEATS = 3


def device_of(arguments: dict[str, Any]) -> torch.device:
    """The device of a task; on a GPU convolutions are tried out once and the fastest kernel is kept."""
    device = torch.device(arguments["device"])
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    return device


def make_recipe(arguments: dict[str, Any], **instead: Any) -> Recipe:
    """The recipe that the arguments of a task describe."""
    augment = CropFlipCutout() if arguments["augment"] else None
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
    known["extra"]["epochs"] = rounded([_line(epoch) for epoch in epochs], null=False)
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


def derive_one(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Fields of a result; ``fit_s`` is what is spent beyond training the networks."""
    arguments = task["config"]["arguments"]
    device = device_of(arguments)
    images = read_images(folder, device, arguments["limit_rows"])
    kept = models_folder(folder)
    members = [
        load_model(model_file(kept, task["protocol"], "softmax", seed, place), device)
        for seed, place in arguments["members"]
    ]
    facts: dict[str, Any] = {"members": len(members)}
    start = time.perf_counter()
    with torch.no_grad():
        output: Callable[[Tensor], SoftmaxOutput]
        if task["model"] == "ensemble":
            output = _ensemble(members)
        else:
            output, facts["prior_precision"] = _laplace(
                members[0], images.train_X, images.held_X, images.held_y
            )
        spent = time.perf_counter() - start
        known = evaluate(output, images)
        known["predict_s"] = prediction_seconds(lambda: output(images.test_X), images)
    known["extra"] |= facts
    return {"n_train": len(images.train_y), "fit_s": spent, **known}


def _ensemble(members: list[Model]) -> Callable[[Tensor], SoftmaxOutput]:
    def output(X: Tensor) -> SoftmaxOutput:
        outputs = [output_of(member, X) for member in members]
        return SoftmaxOutput(torch.cat([o.logits for o in outputs], 1), outputs[0].temperature)

    return output


def _laplace(
    model: Model, train_X: Tensor, held_X: Tensor, held_y: Tensor
) -> tuple[Callable[[Tensor], SoftmaxOutput], float]:
    linear: Any = model.head.linear
    laplace = LastLayerLaplace(linear.weight, linear.bias, features_of(model, train_X))
    precision = laplace.choose_precision(features_of(model, held_X), held_y)
    return (lambda X: laplace.output(features_of(model, X), precision)), precision


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
    return {"n_train": len(y), "n_classes": n_classes, "extra": rounded(extra, null=False)}


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


def warm_up(config: dict[str, Any]) -> None:
    """Wake the GPU; epochs are timed one by one, so nothing else matters."""
    if str(config["arguments"]["device"]).startswith("cuda"):
        torch.zeros(1, device=config["arguments"]["device"])


def measure(task: dict[str, Any], folder: Path, begin: Callable[[], None]) -> dict[str, Any]:
    """Fields of a :class:`Result`.

    Parameters
    ----------
    task : dict
        A :class:`Task`; ``config["arguments"]["kind"]`` is "train",
        "derive" or "time".
    folder : Path
        Of the set, as :class:`ImageSpool` made it.
    begin : callable
        Called when the clock starts.
    """
    # The key is a property of the task, which comes as plain JSON.
    names = ("data", "data_digest", "protocol", "split", "model", "config", "versions")
    task = {**task, "place": Task(**{name: task[name] for name in names}).place}
    kinds = {"train": train_one, "derive": derive_one, "time": time_one}
    return on_device(kinds[task["config"]["arguments"]["kind"]], task, folder, begin)


def on_device(
    work: Callable[[dict[str, Any], Path], dict[str, Any]],
    task: dict[str, Any],
    folder: Path,
    begin: Callable[[], None],
) -> dict[str, Any]:
    """Do the work of a task; say which GPU it used, and end the process if that can do nothing any more."""
    on_gpu = str(task["config"]["arguments"]["device"]).startswith("cuda")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    begin()
    try:
        known = work(task, folder)
    except RuntimeError as error:
        if not str(error).startswith("CUDA error"):  # running out of memory is none
            raise
        # Whatever this process does next on the device would fail too: a new one takes its place.
        sys.stderr.write(f"{type(error).__name__}: {str(error).splitlines()[0]}\n")
        sys.stderr.flush()
        os._exit(1)
    if on_gpu:
        known["extra"]["gpu"] = torch.cuda.get_device_name()
        known["extra"]["gpu_peak_mb"] = round(torch.cuda.max_memory_allocated() / 1e6, 1)
    return known
