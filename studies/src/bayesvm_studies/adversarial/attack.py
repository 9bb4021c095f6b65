"""What a worker does for a task of the adversarial study: attack a model, and see whether it notices."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.adversarial import (
    SCORES,
    SQUEEZING,
    AdaptiveAttack,
    ImageModel,
    SqueezingAwareAttack,
    gradient_signs,
    pgd,
    random_signs,
    roc_auc,
    step_along,
    tpr_at_fpr,
)
from bayesvm.adversarial._detector import Combination, Scores
from bayesvm.adversarial._model import Rows
from bayesvm.adversarial._scores import score_rows
from bayesvm_studies.adversarial.plan import ATTACK_PASSES, COMBINED, FPR, SQUEEZED
from bayesvm_studies.images.arrays import Images, models_folder, read_images
from bayesvm_studies.images.models import PASSES, Model, load_model
from bayesvm_studies.images.plan import GROUPS
from bayesvm_studies.images.training import device_of, on_device
from bayesvm_studies.images.training import warm_up as warm_up
from bayesvm_studies.statistics import score_sums

# Rows at a time: of predictions, and of gradients, which need what is between the layers.
ROWS = 1000
GRADIENT_ROWS = 500
# The ratio follows from its logarithm, which takes longest.
_SCORES = tuple(name for name in SCORES if name != "variation_ratio")


class Loaded(NamedTuple):
    """A model.

    Attributes
    ----------
    model : ImageModel
        As it predicts: in the precision that it was trained in.
    attacker : ImageModel
        The same weights as attacks see them: in single precision, whose
        gradients have signs for small pixels too, and with fewer passes.
    shortened : bool
        Whether it was trained for less than its recipe.
    """

    model: ImageModel
    attacker: ImageModel
    shortened: bool


class Said(NamedTuple):
    """About N images: class probabilities (N, C) and by name the scores (N,) in double precision."""

    probabilities: Tensor
    scores: dict[str, Tensor]

    @property
    def predicted(self) -> Tensor:
        """The most probable class, (N,)."""
        return self.probabilities.argmax(1)


def load_victim(arguments: dict[str, Any], folder: Path, device: torch.device) -> Loaded:
    """The model that the arguments of a task describe.

    Parameters
    ----------
    arguments : dict
        ``members`` are names of files in the folder; ``tempered``.
    folder : Path
        Where models are kept.
    device : torch.device
    """
    members = [load_model(folder / name, device) for name in arguments["members"]]
    for member in members:
        if arguments["tempered"]:
            head: Any = member.head
            head.temperature.fill_(member.temperature)
        for part in (member.network, member.head):
            part.requires_grad_(False)  # only pixels move
    drops = members[0].drops
    bf16 = members[0].arguments.get("recipe", {}).get("precision") == "bf16"
    return Loaded(
        _image_model(members, "bf16" if bf16 else "float32", PASSES if drops else 1),
        _image_model(members, "float32", ATTACK_PASSES if drops else 1),
        any(_shortened(member, arguments["group"]) for member in members),
    )


def _image_model(members: list[Model], precision: str, passes: int) -> ImageModel:
    networks, heads = [m.network for m in members], [m.head for m in members]
    # The networks of the experiment take values from 0 to 255.
    return ImageModel(networks, heads, scale=255.0, precision=precision, passes=passes)


def _shortened(member: Model, group: str) -> bool:
    fewer = member.arguments["recipe"]["epochs"] < GROUPS[group].recipe["epochs"]
    return bool(fewer or member.arguments["limit_rows"] is not None)


@torch.no_grad()
def said_about(model: ImageModel, images: Tensor) -> Said:
    """Probabilities and scores of images with pixels in [0, 1].

    Parameters
    ----------
    model : ImageModel
    images : Tensor of shape (N, channels, height, width)
    """
    rows = Rows.joined([model.rows(block) for block in images.split(ROWS)])
    if model.passes > 1:  # asking again, with gradients, would take as many passes each time
        rows = replace(rows, images=None, model=None)
    # Scores of all rows at once: on a GPU many small calls would take most of the time.
    scores = score_rows(rows, [*_SCORES, *SQUEEZING])
    ratio = {"variation_ratio": scores["log_variation_ratio"].exp()}
    return Said(rows.output.probabilities().double(), {**ratio, **scores})


class Detectors:
    """Fitted to scores of clean and of attacked images.

    Parameters
    ----------
    clean, attacked : dict of str to ndarray of shape (n,) and (m,)
    """

    def __init__(self, clean: Scores, attacked: Scores) -> None:
        own = [name for name in clean if name not in SQUEEZING and name != "variation_ratio"]
        self._fitted = {COMBINED: Combination().fit(clean, attacked, own)}
        if any(name in clean for name in SQUEEZING):
            self._fitted[SQUEEZED] = Combination().fit(clean, attacked)

    def suspicion(self, scores: Scores) -> Scores:
        """Log odds of an attack by every detector."""
        return {name: fitted.log_odds(scores) for name, fitted in self._fitted.items()}


_BINS = 40
_TAIL = 0.002


def detection(
    clean: Scores, noisy: Scores, attacked: Scores, successful: npt.NDArray[np.bool_]
) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Areas under ROC curves (``auc``) and true positives at a fixed rate of false ones (``tpr``).

    Parameters
    ----------
    clean, noisy, attacked : mapping of str to ndarray of shape (n,)
        By score; n may differ.
    successful : ndarray of shape (n,)
        Attacked images that were classified rightly before and wrongly after.

    Returns
    -------
    dict
        By measure, kind of negatives ("clean", "noisy"), kind of positives
        ("all", "successful") and score; empty where no attack succeeded.
    """
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {"auc": {}, "tpr": {}}
    for kind, negatives in (("clean", clean), ("noisy", noisy)):
        for which, rows in (("all", np.ones_like(successful)), ("successful", successful)):
            pairs = {s: (negatives[s], attacked[s][rows]) for s in attacked} if rows.any() else {}
            for name, of in (("auc", roc_auc), ("tpr", _tpr)):
                known = found[name].setdefault(kind, {})
                known[which] = {score: _five_digits(of(*pair)) for score, pair in pairs.items()}
    return found


def histogram(clean: Any, noisy: Any, attacked: Any) -> dict[str, list[float]]:
    """Counts in bins that hold all but the ends of the tails; what lies beyond is in the outermost bins.

    Parameters
    ----------
    clean, noisy, attacked : ndarray of shape (n,)
    """
    ends = [np.quantile(v, q) for v in (clean, noisy, attacked) for q in (_TAIL, 1.0 - _TAIL)]
    low, high = min(ends), max(ends)
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    kinds = (("clean", clean), ("noisy", noisy), ("attacked", attacked))
    counts = {k: np.histogram(np.clip(v, edges[0], edges[-1]), edges)[0].tolist() for k, v in kinds}
    return {"edges": [_five_digits(e) for e in edges], **counts}


def _tpr(negative: Any, positive: Any) -> float:
    return tpr_at_fpr(negative, positive, FPR)


def _five_digits(value: float) -> float:
    return float(f"{value:.5g}")


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


def measure(task: dict[str, Any], folder: Path, begin: Callable[[], None]) -> dict[str, Any]:
    """Fields of a :class:`Result`.

    Parameters
    ----------
    task : dict
        A :class:`Task`.
    folder : Path
        Of the set, as :class:`ImageSpool` made it.
    begin : callable
        Called when the clock starts.
    """
    return on_device(attack_one, task, folder, begin)
