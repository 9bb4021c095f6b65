"""The contest recomputed from raw results: pairs and their tests, ranks, areas under curves, times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bayesvm_studies.contest.contestants import OURS, PROTOCOL, contestants
from bayesvm_studies.contest.plan import contest_sets
from bayesvm_studies.datasets import equal_sets, known_set
from bayesvm_studies.page import about_runs
from bayesvm_studies.results import Result, rounded
from bayesvm_studies.statistics import Comparison, compare, holm, newest, pool, signed_rank
from bayesvm_studies.structured.contestants import OLSON_FOLDS, Contestant

# A model that is tried everywhere but finishes a smaller share of the sets is compared in pairs only:
# ranks of the others would otherwise be about the few sets that it has.
_LEAST_SHARE = 0.5
# A set counts with so many folds: the scores of all sets weigh the same, however many folds they pool.
FEWEST_FOLDS = 3
SCORES = ("log_loss", "accuracy", "auc")
# Those of which more is better.
_MORE_IS_BETTER = ("accuracy", "auc")


@dataclass(frozen=True)
class ContestSet:
    """One set: the fits that each model made, and why others are not there.

    Attributes
    ----------
    name : str
    rows, classes : int
    folds : tuple of int
        Those that were run, by any model.
    fits : dict of str to dict of int to Result
        By model and fold, for models that finished all folds they are tried on.
    gaps : dict of str to str
        Models that did not, and what the first of their gaps is.
    """

    name: str
    rows: int
    classes: int
    folds: tuple[int, ...]
    fits: dict[str, dict[int, Result]]
    gaps: dict[str, str]

    def score(self, what: str, model: str, folds: Iterable[int]) -> float:
        """A score of some folds: rows are pooled; areas under curves are averaged, NaN without any."""
        some = [self.fits[model][fold] for fold in folds]
        if what == "auc":
            areas = [r.auc for r in some if r.auc is not None]
            return float(np.mean(areas)) if areas else float("nan")
        pooled = pool(some)
        return pooled.log_loss if what == "log_loss" else pooled.accuracy

    def common(self, models: Iterable[str]) -> list[int]:
        """Folds that all of these models have."""
        return [fold for fold in self.folds if all(fold in self.fits[m] for m in models)]


class Pair(NamedTuple):
    """BayesianSVC and a rival over the sets and folds that both finished.

    Attributes
    ----------
    rival : str
    sets : list of str
    ours, theirs : dict of str to list of float
        By score, one value a set; NaN where a set has no such score.
    time_ratio : float
        Geometric mean over all fits of their time over ours.
    n_fits : int
    """

    rival: str
    sets: list[str]
    ours: dict[str, list[float]]
    theirs: dict[str, list[float]]
    time_ratio: float
    n_fits: int

    def p_value(self, what: str) -> float:
        """Of Wilcoxon's test over the sets, for one rival alone."""
        return signed_rank(*self._known(what))

    def _known(self, what: str) -> tuple[list[float], list[float]]:
        both = [
            (a, b)
            for a, b in zip(self.ours[what], self.theirs[what], strict=True)
            if np.isfinite(a) and np.isfinite(b)
        ]
        return [a for a, _ in both], [b for _, b in both]

    def as_dict(self, what: str) -> dict[str, Any]:
        """Wins, losses and ties of ours; means and medians of both."""
        ours, theirs = (np.array(values) for values in self._known(what))
        leads = np.round(ours - theirs, 12) * (1.0 if what in _MORE_IS_BETTER else -1.0)
        found: dict[str, Any] = {
            "wins": int((leads > 0).sum()),
            "losses": int((leads < 0).sum()),
            "ties": int((leads == 0).sum()),
        }
        if len(ours):
            found |= {"mean": float(ours.mean()), "mean_theirs": float(theirs.mean())}
            found |= {"median": float(np.median(ours)), "median_theirs": float(np.median(theirs))}
        return found


class Standing(NamedTuple):
    """Some models over the sets and folds that all of them finished."""

    models: list[str]
    sets: list[ContestSet]

    def table(self, what: str) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
        """A row per set that has this score, a column per model."""
        rows = [[s.score(what, m, s.common(self.models)) for m in self.models] for s in self.sets]
        table = np.array(rows).reshape(len(self.sets), len(self.models))
        return table[np.isfinite(table).all(1)]

    def ranks(self, what: str) -> Comparison:
        """The models compared, 1 for the best."""
        return compare(self.models, self.table(what) * (-1.0 if what in _MORE_IS_BETTER else 1.0))

    def over_sets(self, what: str, of: Callable[..., Any] = np.mean) -> dict[str, float]:
        """Mean or another figure over the sets, by model; empty without sets."""
        table = self.table(what)
        return {m: float(of(column)) for m, column in zip(self.models, table.T, strict=True) if len(table)}

    def as_dict(self) -> dict[str, Any]:
        """Means, medians and ranks as plain numbers."""
        ranks = {what: self.ranks(what) for what in SCORES}
        return {
            "models": self.models,
            "n_sets": len(self.sets),
            **{f"mean_{what}": self.over_sets(what) for what in SCORES},
            **{f"median_{what}": self.over_sets(what, np.median) for what in SCORES},
            "rank": {what: found.as_dict() for what, found in ranks.items()},
            "rank_n_sets": {what: found.n_sets for what, found in ranks.items()},
            "friedman_p": {what: found.p_value for what, found in ranks.items()},
            "critical_difference": {what: found.critical_difference for what, found in ranks.items()},
        }


@dataclass(frozen=True)
class ContestSummary:
    """All sets, and the models in the order of the contest.

    Attributes
    ----------
    sets : list of ContestSet
        The smallest first.
    known : dict of str to Contestant
        Models with results.
    results : tuple of Result
    machine : str
        Where most fits were made; times are those of this machine alone.
    """

    sets: list[ContestSet]
    known: dict[str, Contestant]
    results: tuple[Result, ...]
    machine: str

    @property
    def whole(self) -> list[ContestSet]:
        """Sets with enough folds, or as many as any where none has enough; the others do not count."""
        most = max((len(s.folds) for s in self.sets), default=0)
        return [s for s in self.sets if len(s.folds) >= min(most, FEWEST_FOLDS)]

    @property
    def rivals(self) -> list[str]:
        """All models but ours."""
        return [m for m in self.known if m != OURS]

    @cached_property
    def ranked(self) -> list[str]:
        """Models that are tried everywhere and finish at least half of the sets."""
        least = _LEAST_SHARE * len(self.whole)
        return [
            m for m, c in self.known.items() if c.everywhere and sum(m in s.fits for s in self.whole) >= least
        ]

    def standing(self, models: Sequence[str], without: Iterable[str] = ()) -> Standing:
        """Some models over the sets that all of them finished, but for some sets."""
        left_out = set(without)
        sets = [s for s in self.whole if s.name not in left_out and set(models) <= set(s.fits)]
        return Standing(list(models), sets if models else [])

    def pair(self, rival: str, without: Iterable[str] = ()) -> Pair:
        """Ours and one rival."""
        sets = self.standing([OURS, rival], without).sets
        folds = [s.common([OURS, rival]) for s in sets]
        ours, theirs = (
            {what: [s.score(what, m, f) for s, f in zip(sets, folds, strict=True)] for what in SCORES}
            for m in (OURS, rival)
        )
        logs = [
            np.log(theirs_s / ours_s)
            for s, f in zip(sets, folds, strict=True)
            for ours_s, theirs_s in zip(*(self._seconds(s, m, f) for m in (OURS, rival)), strict=True)
            if np.isfinite(ours_s) and np.isfinite(theirs_s)
        ]
        ratio = float(np.exp(np.mean(logs))) if logs else float("nan")
        return Pair(rival, [s.name for s in sets], ours, theirs, ratio, len(logs))

    @cached_property
    def pairs(self) -> dict[str, Pair]:
        """Ours and each rival; none without ours."""
        return {m: self.pair(m) for m in self.rivals} if OURS in self.known else {}

    def _seconds(self, s: ContestSet, model: str, folds: Iterable[int]) -> list[float]:
        """Seconds of fits; NaN of those that another machine made."""
        fits = [s.fits[model][fold] for fold in folds]
        return [r.fit_s if self._here(r) and r.fit_s > 0 else float("nan") for r in fits]

    def mean_seconds(self, s: ContestSet, model: str) -> float:
        """Mean over the folds of a set; NaN where another machine made one of them."""
        return float(np.mean(self._seconds(s, model, s.fits[model])))

    def _here(self, r: Result) -> bool:
        return r.machine == self.machine

    def fit_times(self, standing: Standing) -> dict[str, Any]:
        """Geometric means of the seconds of a fit, over the fits that the models have on one machine.

        A model that never ran on it has none, and does not keep the others from theirs.
        """
        every = [(m, r) for s in standing.sets for m in standing.models for r in s.fits[m].values()]
        timed = [m for m in standing.models if any(self._here(r) for of, r in every if of == m)]
        rows: list[list[float]] = []
        for s in standing.sets:
            folds = s.common(standing.models)
            rows += map(list, zip(*(self._seconds(s, m, folds) for m in timed), strict=True))
        rows = [row for row in rows if np.isfinite(row).all()]
        table = np.array(rows).reshape(len(rows), len(timed))
        means = np.exp(np.log(table).mean(0)) if len(table) else np.full(len(timed), np.nan)
        found = dict(zip(timed, map(float, means), strict=True))
        return {
            "geometric_mean": {m: found.get(m, float("nan")) for m in standing.models},
            "n_fits": len(table),
            "machine": self.machine,
        }

    def tests(self, without: Iterable[str] = ()) -> dict[str, Any]:
        """p-values by score and rival, corrected over the rivals, and for one rival alone."""
        left_out = list(without)
        pairs = {m: self.pair(m, left_out) for m in self.pairs} if left_out else self.pairs
        alone = {
            what: {m: pair.p_value(what) for m, pair in pairs.items()} for what in ("log_loss", "accuracy")
        }
        return {"p": {what: holm(values) for what, values in alone.items()}, "p_alone": alone}

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON can hold it; what is not known is null."""
        ranked, every = self.standing(self.ranked), self.standing(list(self.known))
        twice = sorted(equal_sets())
        of_ranked = ranked.as_dict()
        described = {
            **{key: value for key, value in of_ranked.items() if key != "models"},
            "ranked": self.ranked,
            **self.tests(),
            "pairs": {
                m: {
                    "n_sets": len(pair.sets),
                    **{what: pair.as_dict(what) for what in SCORES},
                    "time_ratio": pair.time_ratio,
                    "n_fits": pair.n_fits,
                }
                for m, pair in self.pairs.items()
            },
            "time": self.fit_times(ranked),
            "every_model": {**every.as_dict(), "time": self.fit_times(every)},
            "without_equal_sets": {
                "left_out": twice,
                "rank": self.standing(self.ranked, twice).as_dict()["rank"],
                **self.tests(twice),
            },
            "not_finished": {s.name: s.gaps for s in self.sets if s.gaps},
            "fewer_folds": {s.name: len(s.folds) for s in self.sets if len(s.folds) < OLSON_FOLDS},
            "not_run": self.not_run(),
            "model_versions": self.versions(),
            "n_fits": len(self.results),
            "jobs": sorted({r.jobs for r in self.results}),
            **about_runs(self.results),
        }
        return dict(rounded(described))

    def not_run(self) -> list[str]:
        """Sets of the contest without any result."""
        there = {s.name for s in self.sets}
        return [s.name for s in contest_sets() if s.name not in there]

    def versions(self) -> dict[str, list[str]]:
        """By model, the versions of what it is made of."""
        found: dict[str, set[str]] = defaultdict(set)
        for r in self.results:
            # An adapter is known by the digest of its file, which says nothing to a reader.
            named = {**{k: v for k, v in r.environment.items() if k == "python"}, **r.versions}
            words = [f"{k} {v}" for k, v in sorted(named.items()) if "." not in k]
            found[r.model].add(", ".join(words))
        return {m: sorted(found[m]) for m in self.known}


def summarise(results: Iterable[Result]) -> ContestSummary:
    """Put raw results together."""
    mine = [r for r in results if r.protocol == PROTOCOL and r.model in contestants()]
    fits: dict[str, dict[str, dict[int, Result]]] = defaultdict(lambda: defaultdict(dict))
    for (data, split, model), result in newest(mine).items():
        fits[data][model][split] = result
    ran = {r.model for r in mine}
    known = {name: c for name, c in contestants().items() if name in ran}
    sets = [_contest_set(data, models, known) for data, models in fits.items()]
    sets.sort(key=lambda s: (s.rows, s.name))
    machines = Counter(r.machine for r in mine if r.ok)
    return ContestSummary(sets, known, tuple(mine), machines.most_common(1)[0][0] if machines else "")


def _contest_set(
    data: str, models: Mapping[str, Mapping[int, Result]], known: Mapping[str, Contestant]
) -> ContestSet:
    folds = tuple(sorted({fold for of_model in models.values() for fold in of_model}))
    info = known_set(data)
    finished: dict[str, dict[int, Result]] = {}
    gaps: dict[str, str] = {}
    for name, contestant in known.items():
        if info is not None and not contestant.takes(info):
            continue
        wanted, made = folds[: contestant.max_folds], models.get(name, {})
        bad = [made[fold] for fold in wanted if fold in made and not made[fold].ok]
        lacking = [fold for fold in wanted if fold not in made]
        if bad:
            gaps[name] = _why(bad)
        elif lacking:
            gaps[name] = f"{len(lacking)} of {len(wanted)} folds are missing"
        else:
            finished[name] = {fold: made[fold] for fold in wanted}
    shape = (0, 0) if info is None else (info.rows, info.classes)
    return ContestSet(data, *shape, folds, finished, gaps)


def _why(bad: Sequence[Result]) -> str:
    """What went wrong first: a fold that was not tried tells less than the one that was."""
    first = min(bad, key=lambda r: (r.error.startswith("not tried"), r.split))
    return first.error or first.status
