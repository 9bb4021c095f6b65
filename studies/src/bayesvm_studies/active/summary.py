"""The figures that active learning is judged by, recomputed from raw results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesvm_studies.active.curves import Curves, gather
from bayesvm_studies.active.duel import Duel, duel
from bayesvm_studies.active.roster import EVERYTHING, MODELS, PAIR, POLICIES, entrant
from bayesvm_studies.choose import newest
from bayesvm_studies.datasets import paper_sets
from bayesvm_studies.result import Result
from bayesvm_studies.summary import plain

BUDGETS = (25, 50, 100)
OURS = [entrant("default", policy) for policy in POLICIES]


@dataclass(frozen=True)
class ActiveSummary:
    """Curves of the sets and of poker, and what else there is.

    Attributes
    ----------
    sets, poker : Curves
    everything : dict of int to float
        Test error of poker with all labels of the pool, by seed.
    clock : Result or None
    results : tuple of Result
    """

    sets: Curves
    poker: Curves
    everything: dict[int, float]
    clock: Result | None
    results: tuple[Result, ...]

    @property
    def policies(self) -> list[str]:
        """Entrants of the default recipe with results."""
        return [e for e in OURS if e in self.sets.errors]

    @property
    def entrants(self) -> list[str]:
        """All with results, those of the default recipe first."""
        every = [entrant(m, p) for m, learner in MODELS.items() for p in learner.policies]
        return [e for e in every if e in self.sets.errors]

    @property
    def compared(self) -> list[str]:
        """Entrants with as many seeds as the default recipe: all but the paper's."""
        return [e for e in self.entrants if not e.startswith("paper/")]

    def pair(self, model: str) -> list[str]:
        """The paper's two policies under a model, if it has both."""
        both = [entrant(model, p) for p in PAIR]
        return both if all(e in self.sets.errors for e in both) else []

    @property
    def duel(self) -> Duel | None:
        """Margin against the variation ratio, under the default recipe."""
        return duel(self.sets, entrant("default", "margin"), entrant("default", "variation_ratio"))

    @property
    def notes(self) -> list[str]:
        """What is to be said about the data, each once."""
        found = {r.note for r in self.results if r.note}
        if any(r.config.get("shortened") for r in self.results):
            found.add("some runs were shortened: they show that it works, not how well")
        return sorted(found)

    @property
    def failed(self) -> dict[str, str]:
        """Runs without a result, and why."""
        return {
            f"{r.protocol} {r.data} seed {r.split} {r.model}": r.error or r.status
            for r in self._latest()
            if not r.ok
        }

    def missing(self) -> dict[str, list[str]]:
        """By entrant, sets without any result."""
        names = [s.name for s in paper_sets()]
        found = {}
        for e in self.entrants:
            there = {name for name, _ in self.sets.errors[e]}
            if lacking := [name for name in names if name not in there]:
                found[e] = lacking
        return found

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON can hold it; what cannot be said is null."""
        fought = self.duel
        # Sets and seeds that all finished: the same initial rows and test rows for everyone.
        common = self.sets.places(self.compared)
        described = {
            "mean_rank": _ranks(self.sets, self.policies),
            "mean_rank_std": _ranks(self.sets, self.policies, spread=True),
            "mean_rank_of_pair": _ranks(self.sets, self.pair("default")),
            "mean_rank_of_pair_std": _ranks(self.sets, self.pair("default"), spread=True),
            "paper_recipe": {"mean_rank_of_pair": _ranks(self.sets, self.pair("paper"))},
            "area_under_curve": {
                _key(e): float(np.mean(list(self.sets.areas(e, common).values())))
                for e in self.compared
                if common
            },
            "area_n_sets": len({name for name, _ in common}),
            "area_n_runs": len(common),
            "margin_against_variation_ratio": None if fought is None else fought.as_dict(),
            "round_seconds_1m": None if self.clock is None else self.clock.extra["median_s"],
            "poker": self._poker(),
            "n_sets": {_key(e): len({name for name, _ in self.sets.errors[e]}) for e in self.entrants},
            "n_seeds": {_key(e): len({seed for _, seed in self.sets.errors[e]}) for e in self.entrants},
            "n_queries": self.sets.n_queries,
            "core_hours": sum(r.total_s for r in self.results) / 3600.0,
            "round_ms": {_key(e): self._round_ms(e) for e in self.entrants},
            "n_runs": len(self.results),
            "missing": {_key(e): names for e, names in self.missing().items()},
            "failed": self.failed,
            "machines": sorted({r.machine for r in self.results}),
            "versions": sorted({r.versions["bayesvm"] for r in self.results if "bayesvm" in r.versions}),
            "commits": sorted({r.commit for r in self.results if r.commit}),
            "notes": self.notes,
        }
        return dict(plain(described))

    def _poker(self) -> dict[str, Any]:
        """Mean errors over seeds."""
        found: dict[str, Any] = {
            "error": {
                _key(e): _at_budgets(np.mean(list(curves.values()), axis=0))
                for e, curves in sorted(self.poker.errors.items())
            },
            "n_seeds": len({seed for curves in self.poker.errors.values() for _, seed in curves}),
        }
        found[EVERYTHING] = float(np.mean(list(self.everything.values()))) if self.everything else None
        return found

    def _latest(self) -> list[Result]:
        """The newest of every run; poker runs in all parts under the same names."""
        parts = dict.fromkeys(r.protocol for r in self.results)
        return [r for p in parts for r in newest(r for r in self.results if r.protocol == p).values()]

    def _round_ms(self, name: str) -> float:
        """Milliseconds of a round, errors counted: mean over runs."""
        runs = [r for r in self._latest() if r.ok and r.model == name and r.protocol == "sets"]
        rounds = sum(len(r.extra["wrong"]) for r in runs)
        return 1000.0 * sum(r.total_s for r in runs) / rounds if rounds else float("nan")


def summarise_active(results: Sequence[Result]) -> ActiveSummary:
    """Put raw results together."""
    by_part: dict[str, list[Result]] = {"sets": [], "poker": [], "clock": []}
    for r in results:
        by_part.setdefault(r.protocol, []).append(r)
    whole = entrant("default", EVERYTHING)
    clocks = [r for r in newest(by_part["clock"]).values() if r.ok]
    return ActiveSummary(
        gather(by_part["sets"]),
        gather(by_part["poker"]),
        {
            r.split: 1.0 - r.correct / r.n_test
            for r in newest(by_part["poker"]).values()
            if r.ok and r.model == whole
        },
        clocks[-1] if clocks else None,
        tuple(results),
    )


def _key(name: str) -> str:
    """The policy alone under the default recipe."""
    return name.removeprefix("default/")


def _ranks(curves: Curves, entrants: Sequence[str], spread: bool = False) -> dict[str, dict[str, float]]:
    """Mean ranks of policies at the budgets: mean over seeds or, with ``spread``, standard deviation."""
    by_seed = list(curves.mean_ranks(entrants).values())
    if not by_seed:
        return {}
    if spread:
        of_seeds = np.std(by_seed, axis=0, ddof=1) if len(by_seed) > 1 else np.full_like(by_seed[0], np.nan)
    else:
        of_seeds = np.mean(by_seed, axis=0)
    return {e.partition("/")[2]: _at_budgets(of_seeds[k]) for k, e in enumerate(entrants)}


def _at_budgets(curve: Any) -> dict[str, float]:
    return {str(n): float(curve[n]) if n < len(curve) else float("nan") for n in BUDGETS}
