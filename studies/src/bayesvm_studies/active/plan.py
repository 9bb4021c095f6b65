"""Which runs the experiment on active learning consists of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

from bayesvm_studies.active.roster import (
    CLOCK_ROUNDS,
    CLOCK_ROWS,
    CLOCK_THREADS,
    EVERYTHING,
    MODELS,
    POKER_TEST_ROWS,
    POLICIES,
    POOL_ROWS,
    QUERIES,
    SEEDS,
    TEST_ROWS,
    Learner,
    entrant,
)
from bayesvm_studies.names import chosen_names
from bayesvm_studies.plan import Plan, chosen_sets
from bayesvm_studies.spool import file_digest
from bayesvm_studies.task import Task
from bayesvm_studies.versions import code_version, source_version

PARTS = ("sets", "poker", "clock")
_MEASURED_BY = "bayesvm_studies.active.measure"
_HERE = "experiments/active"
_POKER = "poker"
# What every run executes beside the model.
_LOOP = (
    *(f"active/{name}.py" for name in ("learner", "reading", "refitting", "rules", "scores")),
    *(f"active/{name}.py" for name in ("pool", "screening", "shortlist")),
    *(f"{_HERE}/{name}.py" for name in ("deal", "play")),
)


@dataclass(frozen=True)
class ActiveSettings:
    """What a user may choose.

    Attributes
    ----------
    parts : str
        "all" or some of ``PARTS`` with commas between them.
    subset : str
        "small", "all" or names of sets with commas.
    policies, models : str or None
        Names with commas; None: all.
    seeds : int
        At most so many of each model.
    queries : int
    """

    parts: str = "all"
    subset: str = "all"
    policies: str | None = None
    models: str | None = None
    seeds: int = SEEDS
    queries: int = QUERIES


class ActivePlan(NamedTuple):
    """Two stages: what runs side by side, and what must have the machine for itself."""

    played: Plan
    timed: Plan

    @property
    def tasks(self) -> list[Task]:
        """All of them, in order."""
        return [*self.played.tasks, *self.timed.tasks]


def make_active_plan(settings: ActiveSettings, data: str | os.PathLike[str] | None = None) -> ActivePlan:
    """The runs that the settings ask for; sets that are needed must be there.

    All sets of the first seed come before any of the second, so that a run
    that is stopped early has compared all sets.
    """
    if settings.seeds < 1 or settings.queries < 1:
        raise ValueError(
            f"{settings.seeds} seeds and {settings.queries} queries are not valid; give 1 or more"
        )
    parts = chosen_names("part", settings.parts, PARTS)
    maker = _Maker(settings, data)
    sets = [info.name for info in chosen_sets(settings.subset, "paper")]
    played: list[Task] = []
    for seed in range(settings.seeds):
        if "poker" in parts and _POKER in sets:
            played += maker.poker(seed)  # the longest first, so that none is left running alone at the end
        if "sets" in parts:
            played += maker.sets(sets, seed)
    timed = [maker.clock()] if "clock" in parts and _POKER in sets else []
    return ActivePlan(Plan(played), Plan(timed))


class _Maker:
    """Tasks under the same settings."""

    def __init__(self, settings: ActiveSettings, data: str | os.PathLike[str] | None) -> None:
        self._settings, self._data = settings, data
        self._policies = chosen_names("policy", settings.policies or "all", tuple(POLICIES))
        self._models = chosen_names("model", settings.models or "all", tuple(MODELS))
        self._digests: dict[str, str] = {}

    def sets(self, names: list[str], seed: int) -> Iterator[Task]:
        for model in self._models:
            learner = MODELS[model]
            if seed >= learner.seeds:
                continue
            for policy in (p for p in learner.policies if p in self._policies):
                for name in names:
                    limits = {"pool_rows": POOL_ROWS, "test_rows": TEST_ROWS}
                    yield self._play("sets", name, model, policy, seed, limits)

    def poker(self, seed: int) -> Iterator[Task]:
        """All rows of the pool; and the model that has all labels."""
        if "default" not in self._models:
            return
        limits = {"pool_rows": None, "test_rows": POKER_TEST_ROWS}
        for policy in self._policies:
            yield self._play("poker", _POKER, "default", policy, seed, limits)
        arguments = {**self._of_model("default", EVERYTHING, seed), **limits, "kind": EVERYTHING}
        yield self._task("poker", _POKER, entrant("default", EVERYTHING), seed, arguments)

    def clock(self) -> Task:
        arguments = {
            **self._of_model("default", "variation_ratio", 0),
            "kind": "clock",
            "pool_rows": CLOCK_ROWS,
            "n_rounds": CLOCK_ROUNDS,
            "n_threads": CLOCK_THREADS,
        }
        return self._task("clock", _POKER, entrant("default", "variation_ratio"), 0, arguments)

    def _play(
        self, protocol: str, data: str, model: str, policy: str, seed: int, limits: dict[str, Any]
    ) -> Task:
        own = {"kind": "play", "n_queries": self._settings.queries, **limits}
        arguments = {**self._of_model(model, policy, seed), **own}
        return self._task(protocol, data, entrant(model, policy), seed, arguments)

    def _of_model(self, model: str, policy: str, seed: int) -> dict[str, Any]:
        learner = MODELS[model]
        return {
            "estimator": learner.estimator,
            "model_arguments": learner.arguments,
            "standardised": learner.standardised,
            "policy": policy,
            "random_state": seed,
        }

    def _task(self, protocol: str, data: str, name: str, seed: int, arguments: dict[str, Any]) -> Task:
        if data not in self._digests:
            self._digests[data] = file_digest(data, self._data)
        config = {
            "estimator": f"{_MEASURED_BY}:measure",
            "measured_by": _MEASURED_BY,
            "arguments": arguments,
            "shortened": arguments.get("n_queries", QUERIES) < QUERIES,
        }
        learner = MODELS[name.partition("/")[0]]
        return Task(data, self._digests[data], protocol, seed, name, config, _versions(learner))


def _versions(learner: Learner) -> dict[str, str]:
    """Of the loop, and of what a model is made of."""
    found = {p: source_version() if p == "bayesvm" else version(p) for p in learner.packages}
    module = learner.estimator.split(":")[0]
    own = (f"{_HERE}/{module.rpartition('.')[2]}.py",) if module.startswith("bayesvm_studies") else ()
    return {**found, "bayesvm.active": code_version(*_LOOP, *own)}
