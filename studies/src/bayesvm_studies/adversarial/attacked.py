"""One attack on one model at all strengths: who is fooled, and who notices."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.adversarial import AdaptiveAttack, pgd, random_signs
from bayesvm.adversarial._attack import SqueezingAwareAttack, gradient_signs, step_along
from bayesvm.adversarial._detector import Scores
from bayesvm.adversarial._scores import SQUEEZING
from bayesvm_studies.adversarial.detectors import Detectors
from bayesvm_studies.adversarial.judge import detection, histogram
from bayesvm_studies.adversarial.victim import GRADIENT_ROWS, Loaded, Said, load_victim, said_about
from bayesvm_studies.images.arrays import Images, models_folder, read_images
from bayesvm_studies.images.trained import device_of
from bayesvm_studies.scoring import score_sums

# The score whose distribution is kept.
_DRAWN = "log_variation_ratio"


class Prepared(NamedTuple):
    """What all attacks on a model share: test images, what it says about them, and the detectors.

    Attributes
    ----------
    victim : Loaded
    test_X, test_y : Tensor of shape (N, channels, height, width) and (N,)
        Pixels in [0, 1].
    signs : Tensor
        Random signs of the noise that negatives have.
    clean : Said
        About the test images.
    scores : dict
        Of the test images, those of the detectors included.
    detectors : Detectors
    n_train, n_classes : int
    """

    victim: Loaded
    test_X: Tensor
    test_y: Tensor
    signs: Tensor
    clean: Said
    scores: Scores
    detectors: Detectors
    n_train: int
    n_classes: int


# Tasks of a model come one after the other: the last one is kept.
_last: dict[str, Prepared] = {}


def attack_one(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Fields of a result: scores of the clean test images, and in ``extra`` everything by strength."""
    arguments = task["config"]["arguments"]
    start = time.perf_counter()
    ready = _prepared(arguments, folder)
    middle = time.perf_counter()
    n = arguments["rows"] or len(ready.test_y)
    images, y = ready.test_X[:n], ready.test_y[:n]
    right = (ready.clean.predicted[:n] == y).cpu().numpy()
    by_epsilon: dict[str, Any] = {}
    signs = (
        gradient_signs(ready.victim.attacker, images, y, GRADIENT_ROWS)
        if arguments["attack"] == "fgsm"
        else None
    )
    for epsilon in arguments["epsilons"]:
        if signs is None:
            moved = _attack(arguments, ready.victim, images, y, epsilon)
        else:
            moved = step_along(images, signs, epsilon)
        noise = step_along(images, ready.signs[:n], epsilon)
        by_epsilon[f"{epsilon:g}"] = _judged(ready, moved, noise, y, right, arguments["attack"] == "fgsm")
    ended = time.perf_counter()
    label = ready.test_y.cpu().numpy()
    proba = ready.clean.probabilities.cpu().numpy()
    extra = {
        "clean": {
            "n": len(label),
            "correct": int((proba.argmax(1) == label).sum()),
            "variation_ratio": float(ready.scores["variation_ratio"].mean()),
        },
        "by_epsilon": by_epsilon,
        "model_shortened": ready.victim.shortened,
        "prepare_s": round(middle - start, 3),
    }
    return {
        "n_train": ready.n_train,
        "n_features": int(np.prod(ready.test_X.shape[1:])),
        "n_classes": ready.n_classes,
        **score_sums(label, proba, np.arange(ready.n_classes)),
        "fit_s": middle - start,
        "predict_s": ended - middle,
        "extra": extra,
    }


def _attack(arguments: dict[str, Any], victim: Loaded, images: Tensor, y: Tensor, epsilon: float) -> Tensor:
    steps, model = arguments["steps"], victim.attacker
    if arguments["score"] is None:
        return pgd(model, images, y, epsilon, n_steps=steps, batch_size=GRADIENT_ROWS)
    if arguments["score"] == "mimic":
        return SqueezingAwareAttack(model, epsilon, n_steps=steps, batch_size=GRADIENT_ROWS).attack(images, y)
    made = AdaptiveAttack(model, epsilon, score=arguments["score"], n_steps=steps, batch_size=GRADIENT_ROWS)
    return made.attack(images, y)


def _judged(
    ready: Prepared, moved: Tensor, noise: Tensor, y: Tensor, right: npt.NDArray[np.bool_], drawn: bool
) -> dict[str, Any]:
    """Numbers of one strength."""
    said, beside = (said_about(ready.victim.model, images) for images in (moved, noise))
    attacked, noisy = (_arrays(s, ready.detectors) for s in (said, beside))
    wrong = (said.predicted != y).cpu().numpy()
    found: dict[str, Any] = {
        "n": len(wrong),
        "correct": int((~wrong).sum()),
        "successful": int((right & wrong).sum()),
        "noisy_correct": int((beside.predicted == y).sum()),
        "variation_ratio": float(f"{attacked['variation_ratio'].mean():.5g}"),
        **detection(ready.scores, noisy, attacked, right & wrong),
    }
    if drawn:
        found["histograms"] = {_DRAWN: histogram(ready.scores[_DRAWN], noisy[_DRAWN], attacked[_DRAWN])}
    return found


def _prepared(arguments: dict[str, Any], folder: Path) -> Prepared:
    """What attacks on a model share; made once for tasks that follow each other."""
    names = ("members", "tempered", "device", "limit_rows", "fitted_at")
    key = str([str(folder), *(arguments[name] for name in names)])
    if key not in _last:
        _last.clear()
        _last[key] = _prepare(arguments, folder)
    return _last[key]


def _prepare(arguments: dict[str, Any], folder: Path) -> Prepared:
    device = device_of(arguments)
    images = _images(folder, device, arguments["limit_rows"])
    victim = load_victim(arguments, models_folder(folder), device)
    test_X, held_X = (X.float() / 255.0 for X in (images.test_X, images.held_X))
    detectors = _detectors(arguments, victim, held_X, images.held_y)
    clean = said_about(victim.model, test_X)
    return Prepared(
        victim,
        test_X,
        images.test_y,
        _signs(test_X.shape, device),
        clean,
        _arrays(clean, detectors),
        detectors,
        len(images.train_y),
        images.n_classes,
    )


@lru_cache(maxsize=1)
def _images(folder: Path, device: torch.device, limit_rows: int | None) -> Images:
    """Models of a set come one after the other."""
    return read_images(folder, device, limit_rows)


@lru_cache(maxsize=1)
def _signs(shape: torch.Size, device: torch.device) -> Tensor:
    """Random signs, from images of grey: moved by a half they are zeros and ones."""
    return 2.0 * random_signs(torch.full(shape, 0.5, device=device), 0.5) - 1.0


def _detectors(arguments: dict[str, Any], victim: Loaded, held_X: Tensor, held_y: Tensor) -> Detectors:
    """Fitted to FGSM on images kept from training, at strengths that are not judged."""
    signs = gradient_signs(victim.attacker, held_X, held_y, GRADIENT_ROWS)
    moved = torch.cat([step_along(held_X, signs, epsilon) for epsilon in arguments["fitted_at"]])
    return Detectors(*(_plain(said_about(victim.model, images)) for images in (held_X, moved)))


def _plain(said: Said) -> Scores:
    return {name: value.cpu().numpy() for name, value in said.scores.items()}


def _arrays(said: Said, detectors: Detectors) -> Scores:
    """Scores that are judged: the model's own and those of the detectors."""
    found = _plain(said)
    judged = {name: value for name, value in found.items() if name not in SQUEEZING}
    return {**judged, **detectors.suspicion(found)}
