"""Trained models as attacks see them, and what they say about many images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bayesvm.adversarial import SCORES, SQUEEZING, ImageModel
from bayesvm.adversarial._model import Rows
from bayesvm.adversarial._scores import score_rows
from bayesvm_studies.adversarial.grid import ATTACK_PASSES
from bayesvm_studies.images.models import Model, load_model
from bayesvm_studies.images.predict import PASSES
from bayesvm_studies.images.recipes import GROUPS

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
