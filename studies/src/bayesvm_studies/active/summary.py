"""Budget curves of policies, their ranks, and what the study of active learning is judged by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm_studies.active.plan import EVERYTHING, MODELS, PAIR, POLICIES, entrant
from bayesvm_studies.datasets import paper_sets
from bayesvm_studies.page import SHORTENED, about_runs
from bayesvm_studies.results import Result, rounded
from bayesvm_studies.statistics import newest, rank_rows, signed_rank

FloatArray = npt.NDArray[np.floating]
Place = tuple[str, int]


class Curves(NamedTuple):
    """Test error before the first query and after each.

    Attributes
    ----------
    errors : dict of str to dict
        By entrant, then by (set, seed): arrays of n_queries + 1 shares.
    n_queries : int
        Most queries of any run; where the pool was empty before, its last error stays.
    """

    errors: dict[str, dict[Place, FloatArray]]
    n_queries: int

    def places(self, entrants: Sequence[str]) -> list[Place]:
        """Sets and seeds that all of these finished, in order."""
        if not entrants:
            return []
        common = set.intersection(*(set(self.errors.get(e, {})) for e in entrants))
        return sorted(common, key=lambda place: (place[1], place[0]))

    def stacked(self, entrants: Sequence[str], places: Sequence[Place]) -> FloatArray:
        """Errors, shape (n_places, n_entrants, n_queries + 1)."""
        shape = (len(places), len(entrants), self.n_queries + 1)
        return np.array([[self.errors[e][p] for e in entrants] for p in places]).reshape(shape)

    def mean_ranks(self, entrants: Sequence[str]) -> dict[int, FloatArray]:
        """By seed, mean ranks over the sets, shape (n_entrants, n_queries + 1); 1 is the lowest error."""
        places = self.places(entrants)
        found = {}
        for seed in sorted({seed for _, seed in places}):
            errors = self.stacked(entrants, [p for p in places if p[1] == seed])
            n_sets, n_entrants, n = errors.shape
            ranks = rank_rows(errors.transpose(0, 2, 1).reshape(-1, n_entrants))
            found[seed] = ranks.reshape(n_sets, n, n_entrants).mean(0).T
        return found

    def mean_accuracy(self, entrants: Sequence[str]) -> dict[int, FloatArray]:
        """By seed, mean accuracies over the sets, shape (n_entrants, n_queries + 1)."""
        places = self.places(entrants)
        return {
            seed: 1.0 - self.stacked(entrants, [p for p in places if p[1] == seed]).mean(0)
            for seed in sorted({seed for _, seed in places})
        }

    def areas(self, entrant: str, places: Iterable[Place] | None = None) -> dict[str, float]:
        """By set, the area under the curve of accuracy, mean over its seeds, or over these sets and seeds."""
        wanted = None if places is None else set(places)
        found: dict[str, list[float]] = {}
        for place, errors in sorted(self.errors.get(entrant, {}).items()):
            if wanted is None or place in wanted:
                found.setdefault(place[0], []).append(area(1.0 - errors))
        return {name: float(np.mean(values)) for name, values in found.items()}


def area(accuracy: FloatArray) -> float:
    """Area under a budget curve over its length: the mean height, by the trapezoidal rule.

    Examples
    --------
    >>> area(np.array([0.0, 1.0, 1.0]))
    0.75
    """
    if len(accuracy) == 1:
        return float(accuracy[0])
    return float((accuracy[:-1] + accuracy[1:]).mean() / 2.0)


def gather(results: Iterable[Result]) -> Curves:
    """Curves of runs that have one; of several results of a run the newest counts.

    A failure or a shorter trial does not hide a whole run that was made before it.
    """
    runs = [r for r in results if r.ok and "wrong" in r.extra]
    n_queries = max((_asked_for(r) for r in runs), default=0)
    errors: dict[str, dict[Place, FloatArray]] = {}
    for run in newest(r for r in runs if _asked_for(r) == n_queries).values():
        share = np.asarray(run.extra["wrong"], dtype=np.float64) / run.n_test
        padded = np.pad(share, (0, n_queries + 1 - len(share)), mode="edge")
        errors.setdefault(run.model, {})[run.data, run.split] = padded
    return Curves(errors, n_queries)


def _asked_for(run: Result) -> int:
    return int(run.config["arguments"]["n_queries"])


# Areas under the curve that differ by less than half a percent of accuracy count as equal.
_EQUAL = 0.005


class Duel(NamedTuple):
    """Areas under the budget curve by set, and who won where.

    Attributes
    ----------
    first, second : str
        Entrants.
    areas : dict of str to (float, float)
        By set, mean over the seeds that both have.
    p_value : float
        Wilcoxon's signed-rank test over the sets; NaN with fewer than two that differ.
    """

    first: str
    second: str
    areas: dict[str, tuple[float, float]]
    p_value: float

    def won(self) -> list[str]:
        """Sets on which the first is better, by the largest lead first."""
        return self._beyond(1.0)

    def lost(self) -> list[str]:
        """Sets on which the second is better, by the largest lead first."""
        return self._beyond(-1.0)

    @property
    def mean_lead(self) -> float:
        """By how much the first is better, mean over the sets."""
        return float(np.mean([a - b for a, b in self.areas.values()]))

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        won, lost = self.won(), self.lost()
        return {
            "wins": len(won),
            "losses": len(lost),
            "equal": len(self.areas) - len(won) - len(lost),
            "equal_within": _EQUAL,
            "mean_lead": self.mean_lead,
            "wilcoxon_p": self.p_value,
            "wins_on": won,
            "losses_on": lost,
        }

    def _beyond(self, sign: float) -> list[str]:
        leads = {name: sign * (a - b) for name, (a, b) in self.areas.items()}
        return sorted((name for name, lead in leads.items() if lead > _EQUAL), key=lambda name: -leads[name])


def duel(curves: Curves, first: str, second: str) -> Duel | None:
    """Compare two entrants on the sets and seeds that both have; None if there are none."""
    places = curves.places([first, second])
    if not places:
        return None
    both = Curves({e: {p: curves.errors[e][p] for p in places} for e in (first, second)}, curves.n_queries)
    of_first, of_second = both.areas(first), both.areas(second)
    areas = {name: (of_first[name], of_second[name]) for name in of_first}
    p_value = signed_rank([a for a, _ in areas.values()], [b for _, b in areas.values()])
    return Duel(first, second, areas, p_value)


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
        described: dict[str, Any] = {
            "mean_rank": _ranks(self.sets, self.policies),
            "mean_rank_std": _ranks(self.sets, self.policies, spread=True),
            "mean_rank_of_pair": _ranks(self.sets, self.pair("default")),
            "mean_rank_of_pair_std": _ranks(self.sets, self.pair("default"), spread=True),
            "paper_recipe": {"mean_rank_of_pair": _ranks(self.sets, self.pair("paper"))},
            "area_under_curve": {
                policy_key(e): float(np.mean(list(self.sets.areas(e, common).values())))
                for e in self.compared
                if common
            },
            "area_n_sets": len({name for name, _ in common}),
            "area_n_runs": len(common),
            "margin_against_variation_ratio": None if fought is None else fought.as_dict(),
            "round_seconds_1m": None if self.clock is None else self.clock.extra["median_s"],
            "poker": self._poker(),
            "n_sets": {policy_key(e): len({name for name, _ in self.sets.errors[e]}) for e in self.entrants},
            "n_seeds": {policy_key(e): len({seed for _, seed in self.sets.errors[e]}) for e in self.entrants},
            "n_queries": self.sets.n_queries,
            "core_hours": sum(r.total_s for r in self.results) / 3600.0,
            "round_ms": {policy_key(e): self._round_ms(e) for e in self.entrants},
            "n_runs": len(self.results),
            "missing": {policy_key(e): names for e, names in self.missing().items()},
            "failed": self.failed,
            **about_runs(self.results),
        }
        if any(r.config.get("shortened") for r in self.results):
            described["notes"] = sorted([*described["notes"], SHORTENED])
        return dict(rounded(described))

    def _poker(self) -> dict[str, Any]:
        """Mean errors over seeds."""
        found: dict[str, Any] = {
            "error": {
                policy_key(e): _at_budgets(np.mean(list(curves.values()), axis=0))
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


def policy_key(name: str) -> str:
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
