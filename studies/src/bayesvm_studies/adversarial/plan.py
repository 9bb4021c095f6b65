"""What is attacked, how strongly, which runs that makes, and the models that they need."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bayesvm_studies.adversarial import AdversarialSettings
from bayesvm_studies.images import ImageSettings
from bayesvm_studies.images.arrays import ImageSpool
from bayesvm_studies.images.models import model_file
from bayesvm_studies.images.plan import GROUPS
from bayesvm_studies.images.plan import make_plan as make_image_plan
from bayesvm_studies.results import Task, measured_config
from bayesvm_studies.runner import Plan, Stage
from bayesvm_studies.study import chosen_names
from bayesvm_studies.versions import code_version

# Largest change of a pixel, which lies in [0, 1]. The paper's text gives no grid; this is ours.
EPSILONS = {
    "mnist": (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
    "cifar10": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3),
}
# Strengths of the attacks that the combined detector is fitted to: none that it is judged by.
FITTED_AT = {
    "mnist": (0.03, 0.075, 0.125, 0.175, 0.25, 0.35, 0.45),
    "cifar10": (0.007, 0.015, 0.03, 0.07, 0.14, 0.25),
}
# Passes with dropout that an attacker follows the gradient of.
ATTACK_PASSES = 4
# False positives at which true ones are counted.
FPR = 0.05
COMBINED = "combined"
SQUEEZED = "squeezed"
SCORE_TITLES = {
    "variation_ratio": "Variation ratio",
    "log_variation_ratio": "Log variation ratio",
    "entropy": "Entropy",
    "mutual_information": "Mutual information",
    "standardised_margin": "Standardised margin",
    "latent_variance": "Latent variance",
    "inducing_distance": "Distance to inducing points",
    "step_response": "Response to a step",
    "feature_shift": "Shift of features",
    COMBINED: "Combined detector",
    SQUEEZED: "Combined, with squeezing",
}


@dataclass(frozen=True)
class Attack:
    """A way to change images.

    Attributes
    ----------
    title : str
    steps : int
        Gradients that are followed.
    rows : int or None
        Test images that are attacked, the first; None: all.
    seeds : int or None
        Seeds of each model that are attacked, the first; None: all.
    score : str or None
        What it lowers once an image is misclassified: a score, or "mimic",
        the distance of all scores from those of the clean image.
    """

    title: str
    steps: int
    rows: int | None = None
    seeds: int | None = None
    score: str | None = None


ATTACKS = {
    "fgsm": Attack("FGSM", 1),
    # Dozens of gradients for every image: fewer images, one seed.
    "pgd": Attack("PGD, 20 steps", 20, 1000, 1),
    "adaptive": Attack("Adaptive: lowers the variation ratio", 40, 1000, 1, "log_variation_ratio"),
    "mimic": Attack("Adaptive: imitates all scores", 40, 1000, 1, "mimic"),
}
_ALL = tuple(ATTACKS)


@dataclass(frozen=True)
class Victim:
    """A model that is attacked.

    Attributes
    ----------
    head : str
        The head it is trained with, a name of the experiment on images.
    attacks : tuple of str
    tempered : bool
        Whether probabilities have the temperature fitted on held-out rows.
    together : bool
        Whether all seeds are one model.
    """

    head: str
    attacks: tuple[str, ...] = ("fgsm", "pgd")
    tempered: bool = False
    together: bool = False


VICTIMS = {
    "bayesvm": Victim("bayesvm", _ALL),
    # Imitating everything takes many forward passes a step: of our two heads, the one.
    "bayesvm_adam": Victim("bayesvm_adam", ("fgsm", "pgd", "adaptive")),
    "softmax": Victim("softmax"),
    # The temperature changes scores, and the gradients of an attack hardly: one attack shows it.
    "softmax_tempered": Victim("softmax", ("fgsm",), tempered=True),
    "ensemble": Victim("softmax", together=True),
    "mc_dropout": Victim("mc_dropout"),
}


def score_title(name: str) -> str:
    """The name of a score for the reader.

    Examples
    --------
    >>> score_title("log_variation_ratio"), score_title("some_score")
    ('Log variation ratio', 'Some score')
    """
    return SCORE_TITLES.get(name, name.replace("_", " ").capitalize())


MEASURED_BY = "bayesvm_studies.adversarial.attack"
# What an attack runs; models are known by their content.
_CODE = (
    *("bayesvm.adversarial", "bayesvm._core", "bayesvm.nn._output", MEASURED_BY),
    *(f"bayesvm_studies.images.{name}" for name in ("heads", "networks", "models", "arrays")),
)
UNTRAINED = "not trained yet"


def make_plan(settings: AdversarialSettings, data: str | os.PathLike[str] | None = None) -> Plan:
    """The attacks that the settings ask for, and before them trainings of the models that are missing.

    Parameters
    ----------
    settings : AdversarialSettings
    data : str, path-like or None
        Folder of the image sets.
    """
    trained, attacked = _tasks(settings, data)
    folder = Path(settings.models_from)
    return Plan(
        [
            # A known training whose model is gone must be repeated: its results are not asked, but kept.
            Stage(trained, results=folder / "trained.jsonl"),
            # Attacks are known by the content of the models, which is known when they are trained.
            Stage(attacked, replanned=(lambda: _tasks(settings, data)[1]) if trained else None),
        ],
        lambda _: ImageSpool(data, folder, elsewhere=False),
    )


def _tasks(
    settings: AdversarialSettings, data: str | os.PathLike[str] | None
) -> tuple[list[Task], list[Task]]:
    """Trainings that are missing, and attacks."""
    groups = chosen_names("network", settings.group, tuple(GROUPS))
    names = chosen_names("model", settings.models or "all", tuple(VICTIMS))
    attacks = chosen_names("attack", settings.attacks, tuple(ATTACKS))
    heads = list(dict.fromkeys(VICTIMS[name].head for name in names))
    images = ImageSettings(
        group=",".join(groups),
        models=",".join(heads),
        seeds=settings.seeds,
        device=settings.device,
        epochs=settings.epochs,
        limit_rows=settings.limit_rows,
    )
    needed = make_image_plan(images, data).stages[0].tasks
    folder = Path(settings.models_from)
    files = {(t.protocol, t.model, t.split): _file(folder, t) for t in needed}
    missing = [t for t in needed if files[t.protocol, t.model, t.split][1] == UNTRAINED]
    attacked = [
        task
        for group in groups
        for name in names
        for task in _attacks(
            settings,
            name,
            attacks,
            [t for t in needed if (t.protocol, t.model) == (group, VICTIMS[name].head)],
            files,
        )
    ]
    return missing, attacked


Files = dict[tuple[str, str, int], tuple[str, str]]


def _attacks(
    settings: AdversarialSettings, name: str, attacks: Sequence[str], trained: Sequence[Task], files: Files
) -> Iterator[Task]:
    """Attacks on a model of a group; of an ensemble only if there is more than one member."""
    victim = VICTIMS[name]
    teams = [list(trained)] if victim.together else [[task] for task in trained]
    for team in teams:
        if victim.together and len(team) < 2:
            continue
        for attack in (a for a in attacks if a in victim.attacks):
            most = ATTACKS[attack].seeds
            if most is None or team[0].split < most:
                yield _task(settings, name, victim, attack, team, files)


def _task(
    settings: AdversarialSettings, name: str, victim: Victim, attack: str, team: Sequence[Task], files: Files
) -> Task:
    first = team[0]
    members = [files[t.protocol, t.model, t.split] for t in team]
    seed = 0 if victim.together else first.split
    arguments: dict[str, Any] = {
        "group": first.protocol,
        "victim": name,
        "attack": attack,
        "steps": ATTACKS[attack].steps,
        "rows": ATTACKS[attack].rows,
        "score": ATTACKS[attack].score,
        "epsilons": list(EPSILONS[first.data]),
        "fitted_at": list(FITTED_AT[first.data]),
        "tempered": victim.tempered,
        "random_state": seed,
        "device": settings.device,
        "limit_rows": settings.limit_rows,
        "members": [stem for stem, _ in members],
    }
    config = measured_config(MEASURED_BY, arguments, settings.limit_rows is not None)
    content = hashlib.sha256(" ".join(digest for _, digest in members).encode()).hexdigest()[:12]
    versions = {"bayesvm": code_version(*_CODE), "torch": version("torch"), "weights": content}
    return Task(first.data, first.data_digest, attack, seed, f"{first.protocol}.{name}", config, versions)


def _file(folder: Path, task: Task) -> tuple[str, str]:
    """Name of a trained model's file, and what stands for its content.

    The one that this very training would write, else the newest of the same
    network, head and seed: it may have been trained on another device.
    """
    own = model_file(folder, task.protocol, task.model, task.split, task.place)
    if own.is_file():
        return own.name, _digest(own)
    alike = folder.glob(model_file(folder, task.protocol, task.model, task.split, "*").name)
    found = sorted(alike, key=lambda path: (path.stat().st_mtime, path.name))
    return (found[-1].name, _digest(found[-1])) if found else (own.name, UNTRAINED)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]
