"""Which runs the experiment on images consists of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

from bayesvm_studies.images.recipes import (
    DERIVED,
    GROUPS,
    HEADS,
    N_INDUCING,
    OWN_HEADS,
    PACE,
    PLAIN,
    TIMED_BATCH,
    TIMED_ROWS,
    WARMUP_EPOCHS,
    WARMUP_STUDY_EPOCHS,
    Group,
)
from bayesvm_studies.images.spool import SYNTHETIC, image_digest
from bayesvm_studies.names import chosen_names
from bayesvm_studies.plan import Plan
from bayesvm_studies.task import Task
from bayesvm_studies.versions import code_version

PARTS = (*GROUPS, "warmup", "timing")
_MEASURED_BY = "bayesvm_studies.images.measure"
_HERE = "experiments/images"
# What a run of a competitor executes, and what our heads add to it.
_COMMON = tuple(
    f"{_HERE}/{name}.py"
    for name in (
        "heads",
        "outputs",
        "networks",
        "augmentation",
        "trained",
        "predict",
        "calibration",
        "evaluate",
        "models",
    )
)
_LOOP = tuple(
    f"nn/{name}.py"
    for name in (
        "training",
        "loop",
        "replay",
        "optimiser",
        "schedule",
        "batches",
        "recipe",
        "scope",
        "evaluating",
    )
)
# Turns of every head on the clock; steps one by one take long.
ROUNDS, PLAIN_ROUNDS = 5, 2
_SYNTHETIC = {"n_classes": 1000, "n_inducing": 256}


@dataclass(frozen=True)
class ImageSettings:
    """What a user may choose.

    Attributes
    ----------
    parts : str
        "all" or some of ``PARTS`` with commas between them.
    subset : str
        "all" or data sets with commas between them.
    models : str or None
        Heads and what is made of them, with commas; None: all.
    seeds : int or None
        At most so many of each head.
    device : str
    epochs : int or None
        Instead of the recipe's; marked in the results.
    limit_rows : int or None
        At most so many rows of every kind; marked in the results.
    compile : str or None
        Mode of ``torch.compile`` for networks and heads.
    """

    parts: str = "all"
    subset: str = "all"
    models: str | None = None
    seeds: int | None = None
    device: str = "cpu"
    epochs: int | None = None
    limit_rows: int | None = None
    compile: str | None = None


class ImagePlan(NamedTuple):
    """Three stages: what is trained, what is made of it, and what must have the machine for itself."""

    trained: Plan
    derived: Plan
    timed: Plan

    @property
    def tasks(self) -> list[Task]:
        """All of them, in order."""
        return [task for plan in self for task in plan.tasks]


def make_image_plan(settings: ImageSettings, data: str | os.PathLike[str] | None = None) -> ImagePlan:
    """The runs that the settings ask for; data sets that are needed must be there."""
    parts = chosen_names("part", settings.parts, PARTS)
    subset = chosen_names("image set", settings.subset, tuple(dict.fromkeys(g.data for g in GROUPS.values())))
    models = chosen_names("model", settings.models or "all", (*HEADS, *DERIVED))
    maker = _Maker(settings, data)
    trained: list[Task] = []
    derived: list[Task] = []
    timed: list[Task] = []
    for name, group in GROUPS.items():
        if group.data not in subset:
            continue
        if name in parts:
            trained += maker.trained(name, group, models)
            derived += maker.derived(name, group, models)
        if "warmup" in parts and name in ("mnist", "cifar10"):
            trained += maker.warmups(group, models)
        if "timing" in parts:
            timed += maker.timings(name, group)
    if "timing" in parts and settings.subset == "all":
        timed.append(maker.timing_many_classes())
    # The longest first, so that none is left running alone at the end.
    trained.sort(key=lambda task: (task.protocol != "cifar10_residual", task.data))
    return ImagePlan(Plan(trained), Plan(derived), Plan(timed))


class _Maker:
    """Tasks under the same settings."""

    def __init__(self, settings: ImageSettings, data: str | os.PathLike[str] | None) -> None:
        self._settings, self._data = settings, data
        self._digests: dict[str, str] = {}

    def trained(self, name: str, group: Group, models: Iterable[str]) -> list[Task]:
        return [
            self._task(name, group.data, head, seed, self._of_head(group, head, seed))
            for head in models
            if head in group.seeds
            for seed in self._seeds(group.seeds[head])
        ]

    def derived(self, name: str, group: Group, models: Iterable[str]) -> Iterator[Task]:
        members = [(t.split, t.place) for t in self.trained(name, group, ["softmax"])]
        base = {"kind": "derive", "network": group.network, "recipe": self._recipe(group)}
        if "laplace" in models:
            for member in members:
                arguments = {**base, "members": [list(member)], "random_state": member[0]}
                yield self._task(name, group.data, "laplace", member[0], arguments)
        if "ensemble" in models and len(members) > 1:
            arguments = {**base, "members": [list(member) for member in members], "random_state": 0}
            yield self._task(name, group.data, "ensemble", 0, arguments)

    def warmups(self, group: Group, models: Iterable[str]) -> Iterator[Task]:
        epochs = min(WARMUP_STUDY_EPOCHS, self._recipe(group)["epochs"])
        for head in (head for head in OWN_HEADS if head in models):
            for warmup in (0, WARMUP_EPOCHS):
                arguments = self._of_head(group, head, 0)
                arguments["recipe"] = {**arguments["recipe"], "epochs": epochs}
                arguments["kl_warmup_epochs"] = warmup
                yield self._task("warmup", group.data, f"{head}_warmup" if warmup else head, 0, arguments)

    def timings(self, name: str, group: Group) -> Iterator[Task]:
        """At the batch at which heads are compared, replayed or not, and at that of the curves."""
        own = self._recipe(group)
        timed = {**own, "batch_size": TIMED_BATCH}
        arguments = {**self._timed(group, timed), "n_inducing": N_INDUCING}
        yield self._task("timing", group.data, name, 0, arguments)
        plain = {**arguments, "recipe": {**timed, "graph": False}, "rounds": PLAIN_ROUNDS}
        yield self._task("timing", group.data, f"{name}{PLAIN}", 0, plain)
        if own["batch_size"] != TIMED_BATCH:
            arguments = {**self._timed(group, own), "n_inducing": N_INDUCING}
            yield self._task("timing", group.data, f"{name}{PACE}", 0, arguments)

    def timing_many_classes(self) -> Task:
        group = GROUPS["cifar10_residual"]
        recipe = {**self._recipe(group), "batch_size": TIMED_BATCH}
        # Joint Adam would have 65 million numbers of q to train: nobody's choice with so many classes.
        own = {**_SYNTHETIC, "heads": ["softmax", "bayesvm"]}
        arguments = {**self._timed(group, recipe), **own}
        return self._task("timing", SYNTHETIC, "1000_classes", 0, arguments)

    def _timed(self, group: Group, recipe: dict[str, Any]) -> dict[str, Any]:
        heads = ["softmax", *OWN_HEADS]
        described = {"kind": "time", "network": group.network, "recipe": recipe, "augment": group.augment}
        return {**described, "heads": heads, "rounds": ROUNDS, "n_rows": TIMED_ROWS, "random_state": 0}

    def _of_head(self, group: Group, head: str, seed: int) -> dict[str, Any]:
        spec = HEADS[head]
        return {
            "kind": "train",
            "network": group.network,
            "head": spec.estimator,
            "head_arguments": spec.arguments,
            "dropout": group.dropout if spec.dropout else 0.0,
            "kl_warmup_epochs": 0,
            "recipe": self._recipe(group),
            "augment": group.augment,
            "random_state": seed,
        }

    def _recipe(self, group: Group) -> dict[str, Any]:
        recipe = dict(group.recipe)
        if self._settings.epochs is not None:
            recipe["epochs"] = self._settings.epochs
        if self._settings.compile is not None:
            recipe["compile"] = self._settings.compile
        return recipe

    def _seeds(self, n_seeds: int) -> range:
        return range(n_seeds if self._settings.seeds is None else min(n_seeds, self._settings.seeds))

    def _task(self, protocol: str, data: str, model: str, seed: int, arguments: dict[str, Any]) -> Task:
        settings = self._settings
        if data not in self._digests:
            self._digests[data] = image_digest(data, self._data)
        config = {
            "estimator": f"{_MEASURED_BY}:measure",
            "measured_by": _MEASURED_BY,
            "arguments": {**arguments, "device": settings.device, "limit_rows": settings.limit_rows},
            "shortened": settings.epochs is not None or settings.limit_rows is not None,
        }
        ours = model not in ("softmax", "mc_dropout", *DERIVED)
        versions = {
            "bayesvm": code_version("nn", "core", *_COMMON) if ours else code_version(*_LOOP, *_COMMON),
            "torch": version("torch"),
        }
        return Task(data, self._digests[data], protocol, seed, model, config, versions)
