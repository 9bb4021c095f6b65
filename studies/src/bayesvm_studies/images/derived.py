"""Models made of trained softmax networks: an ensemble, and a Laplace approximation of the last layer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bayesvm_studies.images.arrays import models_folder, read_images
from bayesvm_studies.images.evaluate import evaluate
from bayesvm_studies.images.laplace import LastLayerLaplace
from bayesvm_studies.images.models import Model, load_model, model_file
from bayesvm_studies.images.outputs import SoftmaxOutput
from bayesvm_studies.images.predict import features_of, output_of
from bayesvm_studies.images.trained import device_of, prediction_seconds


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
