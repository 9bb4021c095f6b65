"""What is trained and which runs that makes: networks, heads and settings written down once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bayesvm_studies.images import ImageSettings
from bayesvm_studies.images.arrays import SYNTHETIC, ImageSpool, image_digest
from bayesvm_studies.results import Task, measured_config, plain_path
from bayesvm_studies.runner import Plan, Stage
from bayesvm_studies.study import chosen_names
from bayesvm_studies.versions import code_version

SEEDS = 3
N_INDUCING = 64
# The study of the warm-up: epochs over which the divergence gets its weight, and epochs of a run.
WARMUP_EPOCHS = 2
WARMUP_STUDY_EPOCHS = 5
# Clocks: rows of an epoch (150 steps) and batch; endings of those that use the
# recipe's own batch, and of those whose steps are not replayed as a graph.
TIMED_ROWS = 19_200
TIMED_BATCH = 128
PACE = "_pace"
PLAIN = "_plain"

SVM = "bayesvm.nn:BayesianSVMHead"
SOFTMAX = "bayesvm_studies.images.heads:SoftmaxHead"


@dataclass(frozen=True)
class HeadSpec:
    """A last layer that is trained with the network.

    Attributes
    ----------
    title : str
        For tables and figures.
    estimator : str
        "module:name" of the class.
    arguments : dict
        For its constructor.
    dropout : bool
        Whether the network has dropout, which then stays on for predictions.
    """

    title: str
    estimator: str
    arguments: dict[str, Any] = field(default_factory=dict)
    dropout: bool = False


HEADS = {
    "softmax": HeadSpec("Softmax", SOFTMAX),
    "bayesvm": HeadSpec("Bayesian SVM", SVM, {"n_inducing": N_INDUCING, "posterior": "natural"}),
    "bayesvm_adam": HeadSpec("Bayesian SVM (Adam)", SVM, {"n_inducing": N_INDUCING, "posterior": "gradient"}),
    "mc_dropout": HeadSpec("MC dropout", SOFTMAX, dropout=True),
}
# Made of trained softmax networks without training anything.
DERIVED = {"laplace": "Last-layer Laplace", "ensemble": "Deep ensemble"}
OWN_HEADS = ("bayesvm", "bayesvm_adam")
_TEMPERED = "_tempered"


def title_of(model: str) -> str:
    """The name of a model for the reader.

    Examples
    --------
    >>> title_of("softmax_tempered")
    'Softmax + T'
    """
    plain = model.removesuffix(_TEMPERED)
    title = HEADS[plain].title if plain in HEADS else DERIVED.get(plain, plain)
    return f"{title} + T" if model.endswith(_TEMPERED) else title


@dataclass(frozen=True)
class Group:
    """A network on a data set.

    Attributes
    ----------
    title, data, network : str
    recipe : dict
        Settings of :class:`bayesvm.nn.Recipe` that differ from its defaults.
    seeds : dict of str to int
        Heads, and how many seeds each is trained with.
    augment : bool
        Whether training images are cropped, mirrored and cut out.
    dropout : float
        Share that is dropped for heads with dropout.
    """

    title: str
    data: str
    network: str
    recipe: dict[str, Any]
    seeds: dict[str, int]
    augment: bool = False
    dropout: float = 0.5


_ALL = dict.fromkeys(HEADS, SEEDS)
GROUPS = {
    "mnist": Group(
        "MNIST, the paper’s network",
        "mnist",
        "paper_mnist",
        {"epochs": 10, "batch_size": 128, "rate": 1e-3, "schedule": "one_cycle", "graph": True},
        _ALL,
    ),
    "cifar10": Group(
        "CIFAR-10, the paper’s network",
        "cifar10",
        "paper_cifar10",
        {
            "epochs": 20,
            "batch_size": 128,
            "rate": 1e-3,
            "schedule": "one_cycle",
            "precision": "bf16",
            "graph": True,
        },
        _ALL,
    ),
    "cifar10_residual": Group(
        "CIFAR-10, residual network",
        "cifar10",
        "residual9",
        {
            "epochs": 50,
            "batch_size": 256,
            "rate": 5e-3,
            "schedule": "one_cycle",
            "precision": "bf16",
            "weight_decay": 0.15,
            "graph": True,
        },
        # Others than the two that are compared once: they cost as much.
        {**_ALL, "bayesvm_adam": 1, "mc_dropout": 1},
        augment=True,
        dropout=0.1,
    ),
}


PARTS = (*GROUPS, "warmup", "timing")
# Measures of doubt by which images from elsewhere are told; the larger, the more doubtful.
SCORES = ("entropy", "log_variation_ratio", "mutual_information", "largest_probability")
MEASURED_BY = "bayesvm_studies.images.training"
_COMMON = (MEASURED_BY, *(f"bayesvm_studies.images.{name}" for name in ("heads", "networks", "models")))
# Files of ``bayesvm.nn`` that only our heads run: other heads are known by the training loop alone.
_OF_OUR_HEADS = ("_bound", "_calibration", "_head", "_hybrid", "_hybrid_inputs", "_output", "_posterior")
# Turns of every head on the clock; steps one by one take long.
ROUNDS, PLAIN_ROUNDS = 5, 2
_SYNTHETIC = {"n_classes": 1000, "n_inducing": 256}


def make_plan(settings: ImageSettings, data: str | os.PathLike[str] | None = None) -> Plan:
    """The runs that the settings ask for; data sets that are needed must be there.

    Three stages: what is trained, what is made of it, and clocks, which must have the machine for themselves.
    """
    parts = chosen_names("part", settings.group, PARTS)
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

    def spool(results: Path) -> ImageSpool:
        keep = plain_path(results).with_suffix(".models") if settings.keep is None else Path(settings.keep)
        return ImageSpool(data, keep, elsewhere=bool(trained or derived))

    return Plan([Stage(trained), Stage(derived), Stage(timed, alone=True)], spool)


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
        # Joint Adam would have 65 million numbers of q to train: no choice with so many classes.
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
        arguments = {**arguments, "device": settings.device, "limit_rows": settings.limit_rows}
        shortened = settings.epochs is not None or settings.limit_rows is not None
        config = measured_config(MEASURED_BY, arguments, shortened)
        ours = model not in ("softmax", "mc_dropout", *DERIVED)
        code = (
            code_version("bayesvm.nn", "bayesvm._core", *_COMMON)
            if ours
            else code_version("bayesvm.nn", *_COMMON, without=_OF_OUR_HEADS)
        )
        versions = {"bayesvm": code, "torch": version("torch")}
        return Task(data, self._digests[data], protocol, seed, model, config, versions)
