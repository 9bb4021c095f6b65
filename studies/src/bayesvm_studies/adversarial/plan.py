"""Which attacks the experiment consists of, and the models that they need."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from bayesvm_studies.adversarial.grid import ATTACKS, EPSILONS, FITTED_AT, VICTIMS, Victim
from bayesvm_studies.images.models import model_file
from bayesvm_studies.images.plan import ImageSettings, make_image_plan
from bayesvm_studies.images.recipes import GROUPS
from bayesvm_studies.names import chosen_names
from bayesvm_studies.plan import Plan
from bayesvm_studies.task import Task
from bayesvm_studies.versions import code_version

_MEASURED_BY = "bayesvm_studies.adversarial.measure"
# What an attack runs; models are known by their content.
_CODE = (
    "adversarial",
    "core",
    "nn/output.py",
    *(
        f"experiments/adversarial/{name}.py"
        for name in ("grid", "measure", "attacked", "victim", "judge", "detectors")
    ),
    *(f"experiments/images/{name}.py" for name in ("outputs", "predict", "networks", "models", "spool")),
)
UNTRAINED = "not trained yet"


@dataclass(frozen=True)
class AdversarialSettings:
    """What a user may choose.

    Attributes
    ----------
    groups : str
        "all" or some networks (names of the groups of the experiment on images) with commas.
    models : str or None
        Some of ``VICTIMS`` with commas; None: all.
    attacks : str
        "all" or some of ``ATTACKS`` with commas.
    seeds : int or None
        At most so many of each model.
    device : str
    epochs : int or None
        Of models that are missing and trained here, instead of the recipe's; marked in the results.
    limit_rows : int or None
        At most so many rows of every kind, for attacks and for models trained here; marked in the results.
    """

    groups: str = "all"
    models: str | None = None
    attacks: str = "all"
    seeds: int | None = None
    device: str = "cpu"
    epochs: int | None = None
    limit_rows: int | None = None


class AdversarialPlan(NamedTuple):
    """Two stages: models that are missing, and attacks."""

    trained: Plan
    attacked: Plan

    @property
    def tasks(self) -> list[Task]:
        """All of them, in order."""
        return [*self.trained.tasks, *self.attacked.tasks]


def make_adversarial_plan(
    settings: AdversarialSettings,
    models: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
) -> AdversarialPlan:
    """The attacks that the settings ask for, and trainings of the models that the folder lacks.

    Parameters
    ----------
    settings : AdversarialSettings
    models : path-like
        Folder in which ``bayesvm reproduce images`` has kept models.
    data : str, path-like or None
        Folder of the image sets.
    """
    groups = chosen_names("network", settings.groups, tuple(GROUPS))
    names = chosen_names("model", settings.models or "all", tuple(VICTIMS))
    attacks = chosen_names("attack", settings.attacks, tuple(ATTACKS))
    heads = list(dict.fromkeys(VICTIMS[name].head for name in names))
    needed = make_image_plan(
        ImageSettings(
            parts=",".join(groups),
            models=",".join(heads),
            seeds=settings.seeds,
            device=settings.device,
            epochs=settings.epochs,
            limit_rows=settings.limit_rows,
        ),
        data,
    ).trained.tasks
    files = {(t.protocol, t.model, t.split): _file(Path(models), t) for t in needed}
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
    return AdversarialPlan(Plan(missing), Plan(attacked))


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
    config = {
        "estimator": f"{_MEASURED_BY}:measure",
        "measured_by": _MEASURED_BY,
        "arguments": arguments,
        "shortened": settings.limit_rows is not None,
    }
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
