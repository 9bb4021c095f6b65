"""Which policies are compared under which models, and which runs that makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayesvm_studies.active import QUERIES, SEEDS, ActiveSettings
from bayesvm_studies.results import Task, measured_config
from bayesvm_studies.runner import Plan, Stage
from bayesvm_studies.spool import Spool, file_digest
from bayesvm_studies.structured.contestants import OWN_PACKAGES, PAPER_RECIPE, SKLEARN
from bayesvm_studies.structured.plan import chosen_sets
from bayesvm_studies.study import chosen_names
from bayesvm_studies.versions import code_version, package_versions

# The paper's protocol.
N_INDUCING = 4
PAIR = ("variation_ratio", "softmax_entropy")

# Most rows of a set in the pool, and in the test; the poker group has no limit.
POOL_ROWS = 10_000
TEST_ROWS = 2_000
POKER_TEST_ROWS = 10_000
CLOCK_ROWS = 1_000_000
CLOCK_ROUNDS = 12
CLOCK_THREADS = 2
# Of the paper's recipe: a thousand after every query would take four minutes a run.
EPOCHS_PER_QUERY = 100

POLICIES = {
    "variation_ratio": "Variation ratio",
    "softmax_entropy": "Entropy of the softmax",
    "margin": "Margin",
    "bald": "Mutual information",
    "random": "Random",
}
EVERYTHING = "everything"


@dataclass(frozen=True)
class Learner:
    """A model that takes part.

    Attributes
    ----------
    title : str
    estimator : str
        "module:name" of a class.
    arguments : dict
        For its constructor; the seed is added.
    policies : tuple of str
        Under which it runs.
    standardised : bool
        Whether it is given rows in units of the pool's standard deviations.
    seeds : int
        At most so many.
    packages : tuple of str
        Distributions whose versions make a result another one.
    """

    title: str
    estimator: str
    arguments: dict[str, Any]
    policies: tuple[str, ...]
    standardised: bool = False
    seeds: int = SEEDS
    packages: tuple[str, ...] = OWN_PACKAGES


_HERE = "bayesvm_studies.active"
MODELS = {
    "default": Learner(
        "Default recipe",
        "bayesvm:BayesianSVC",
        # Four points matter where they are, so they are learned, as in the paper. Rows kept for a
        # local part would be inducing points by another name.
        {"n_inducing": N_INDUCING, "learn_inducing": True, "local": False},
        tuple(POLICIES),
    ),
    "random_forest": Learner(
        "Random forest",
        "sklearn.ensemble:RandomForestClassifier",
        {"n_estimators": 100},
        ("margin",),
        packages=SKLEARN,
    ),
    "svc": Learner(
        "Calibrated SVC",
        "bayesvm_studies.competitors.classifiers:CalibratedSVC",
        {},
        ("margin",),
        packages=SKLEARN,
    ),
    "paper": Learner(
        "The paper's Adam recipe",
        f"{_HERE}.play:PaperRecipe",
        {**PAPER_RECIPE, "n_inducing": N_INDUCING, "rivals": "mean", "local": False, "warm_start": True},
        PAIR,
        standardised=True,
        seeds=1,
    ),
    "dense": Learner(
        "Dense BayesianSVC",
        "bayesvm:BayesianSVC",
        {"local": False},
        ("variation_ratio", "margin", "random"),
    ),
}


def entrant(model: str, policy: str) -> str:
    """Name of a model under a policy in results.

    Examples
    --------
    >>> entrant("svc", "margin")
    'svc/margin'
    """
    return f"{model}/{policy}"


def title_of(name: str) -> str:
    """What a reader sees instead of :func:`entrant`'s name.

    Examples
    --------
    >>> title_of("default/margin"), title_of("svc/margin")
    ('Margin', 'Calibrated SVC, margin')
    """
    model, _, policy = name.partition("/")
    if model == "default":
        return POLICIES.get(policy, policy)
    known = POLICIES.get(policy, policy)
    return f"{MODELS[model].title}, {known[0].lower()}{known[1:]}"


PARTS = ("sets", "poker", "clock")
MEASURED_BY = f"{_HERE}.play"
_POKER = "poker"


def make_plan(settings: ActiveSettings, data: str | os.PathLike[str] | None = None) -> Plan:
    """The runs that the settings ask for; sets that are needed must be there.

    All sets of the first seed come before any of the second, so that a run
    that is stopped early has compared all sets. The clock comes last, alone.
    """
    if settings.seeds < 1 or settings.queries < 1:
        raise ValueError(
            f"{settings.seeds} seeds and {settings.queries} queries are not valid; give 1 or more"
        )
    parts = chosen_names("part", settings.group, PARTS)
    maker = _Maker(settings, data)
    sets = [info.name for info in chosen_sets(settings.subset, "paper")]
    played: list[Task] = []
    for seed in range(settings.seeds):
        if "poker" in parts and _POKER in sets:
            played += maker.poker(seed)  # the longest first, so that none is left running alone at the end
        if "sets" in parts:
            played += maker.sets(sets, seed)
    timed = [maker.clock()] if "clock" in parts and _POKER in sets else []
    return Plan([Stage(played), Stage(timed, alone=True)], lambda _: Spool(data))


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
        config = measured_config(MEASURED_BY, arguments, arguments.get("n_queries", QUERIES) < QUERIES)
        learner = MODELS[name.partition("/")[0]]
        return Task(data, self._digests[data], protocol, seed, name, config, _versions(learner))


def _versions(learner: Learner) -> dict[str, str]:
    """Of the loop, and of what a model is made of."""
    module = learner.estimator.split(":")[0]
    own = (module,) if module.startswith("bayesvm_studies.") and module != MEASURED_BY else ()
    loop = code_version("bayesvm.active", MEASURED_BY, *own)
    return {**package_versions(learner.packages), "bayesvm.active": loop}
