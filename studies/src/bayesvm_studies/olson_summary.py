"""Accuracy, log-loss and calibration over pooled folds, from the results of Olson's protocol."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesvm_studies.choose import newest, not_run
from bayesvm_studies.datasets import find_set, fully_published, published_accuracies
from bayesvm_studies.plan import SMALL_ROWS
from bayesvm_studies.protocols import OLSON_FOLDS
from bayesvm_studies.ranks import Comparison, compare
from bayesvm_studies.result import Result
from bayesvm_studies.roster import contestants
from bayesvm_studies.scoring import Pooled, pool

OURS = "bayesvm"
ECE_ROWS = 1000
# A model that lacks more sets than this is compared apart: ranks of the others
# would otherwise be about the few sets that it has.
_FEW_SETS = 5
Score = Callable[[Pooled], float]


@dataclass(frozen=True)
class OlsonSet:
    """One set: pooled scores by model, and what is not there.

    Attributes
    ----------
    name : str
    rows : int
    folds : int
        Folds that were run.
    scores : dict of str to Pooled
    fit_s, predict_s, peak_mb : dict of str to float
        Means over the folds.
    missing : dict of str to int
        Folds that a model lacks, of those run.
    failed : dict of str to str
        Models with a fold that failed or took too long, and why.
    """

    name: str
    rows: int
    folds: int
    scores: dict[str, Pooled]
    fit_s: dict[str, float]
    predict_s: dict[str, float]
    peak_mb: dict[str, float]
    missing: dict[str, int]
    failed: dict[str, str]


@dataclass(frozen=True)
class OlsonSummary:
    """All sets.

    Attributes
    ----------
    sets : list of OlsonSet
    models : list of str
        Those that were run on all sets, or lack few.
    limited : list of str
        Those that take part on sets up to 5,000 rows, or were run on some sets only.
    suite_minutes : float
        Wall-clock time in which fits of BayesianSVC were running.
    suite_jobs : int
        Processes that ran side by side meanwhile.
    """

    sets: list[OlsonSet]
    models: list[str]
    limited: list[str]
    suite_minutes: float
    suite_jobs: int

    @property
    def whole(self) -> list[OlsonSet]:
        """Sets with as many folds as any."""
        most = max((s.folds for s in self.sets), default=0)
        return [s for s in self.sets if s.folds == most]

    def complete(self, models: Sequence[str]) -> list[OlsonSet]:
        """Whole sets on which no fold of these models is missing and which all of them take."""
        known = contestants("olson")
        return [
            s
            for s in self.whole
            if not set(s.missing) & set(models)
            and all((info := find_set(s.name)) is not None and known[m].takes(info) for m in models)
        ]

    def ranks(self, score: Score, models: Sequence[str] | None = None) -> Comparison:
        """Models compared by a score, lower is better."""
        models = list(self.models if models is None else models)
        table = [
            [score(s.scores[m]) if m in s.scores else np.nan for m in models] for s in self.complete(models)
        ]
        return compare(models, np.array(table).reshape(len(table), len(models)))

    def ranks_with_published(self) -> Comparison:
        """By accuracy among our runs and the published single configurations, on the sets that have all."""
        published = published_accuracies()
        theirs = sorted(c for c in next(iter(published.values())) if c.endswith("_single"))
        sets = [s for s in self.complete(self.models) if s.name in fully_published()]
        table = [
            [
                # Three decimals are what is published: ours are rounded alike, so that ties are ties.
                *(-round(s.scores[m].accuracy, 3) if m in s.scores else np.nan for m in self.models),
                *(-published[s.name][c] for c in theirs),
            ]
            for s in sets
        ]
        names = [*self.models, *(f"published_{c}" for c in theirs)]
        return compare(names, np.array(table).reshape(len(table), len(names)))

    def mean_accuracy(self) -> dict[str, float]:
        """Means over the fully published whole sets that each model finished."""
        return self._means(lambda p: p.accuracy, lambda s: s.name in fully_published())

    def mean_published(self) -> dict[str, float]:
        """Means of the published accuracies over those of these sets that BayesianSVC finished."""
        published = published_accuracies()
        names = [s.name for s in self.whole if s.name in fully_published() and OURS in s.scores]
        if not names:
            return {}
        return {c: float(np.mean([published[n][c] for n in names])) for c in published[names[0]]}

    def mean_ece(self) -> dict[str, float]:
        """Means over the sets with at least 1,000 rows that each model finished."""
        return self._means(lambda p: p.ece, lambda s: s.rows >= ECE_ROWS)

    def _means(self, score: Score, wanted: Callable[[OlsonSet], bool]) -> dict[str, float]:
        found = {
            m: [score(s.scores[m]) for s in self.whole if wanted(s) and m in s.scores]
            for m in (*self.models, *self.limited)
        }
        return {m: float(np.mean(values)) for m, values in found.items() if values}

    def _on_small_sets(self) -> list[str]:
        """Models that ran on every set up to 1,500 rows."""
        small = [s for s in self.whole if s.rows <= SMALL_ROWS]
        return [m for m in (*self.models, *self.limited) if not any(m in s.missing for s in small)]

    def _compared(self, models: Sequence[str]) -> dict[str, Any]:
        """Ranks of some models on the sets that all of them finished."""
        return {
            "mean_rank": self.ranks(_accuracy, models).as_dict(),
            "log_loss_rank": self.ranks(_log_loss, models).as_dict(),
            "n_sets": len(self.complete(models)),
        }

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain numbers."""
        accuracy, log_loss = self.ranks(_accuracy), self.ranks(_log_loss)
        large = {s.name: s.scores[OURS].ece for s in self.whole if s.rows >= ECE_ROWS and OURS in s.scores}
        every = [*self.models, *self.limited]
        published = self.ranks_with_published()
        ece = self.mean_ece()
        return {
            "mean_accuracy": self.mean_accuracy(),
            "mean_accuracy_n_sets": {
                m: sum(s.name in fully_published() and m in s.scores for s in self.whole) for m in every
            },
            "mean_accuracy_published": self.mean_published(),
            "mean_rank": accuracy.as_dict(),
            "mean_rank_with_published": published.as_dict(),
            "log_loss_rank": log_loss.as_dict(),
            "brier_rank": self.ranks(lambda p: p.brier).as_dict(),
            "friedman_p": accuracy.p_value,
            "critical_difference": accuracy.critical_difference,
            "n_sets": accuracy.n_sets,
            "n_sets_with_published": published.n_sets,
            "ece": ece.get(OURS, float("nan")),
            "ece_per_model": ece,
            "ece_n_sets": len(large),
            "ece_over_.03": {name: round(value, 4) for name, value in large.items() if value >= 0.03},
            "small_sets": self._compared(self._on_small_sets()),
            "every_model": self._compared(every),
            "fewer_folds": {s.name: s.folds for s in self.sets if s.folds < OLSON_FOLDS},
            "missing": {s.name: s.missing for s in self.sets if s.missing},
            "not_run": not_run("olson", [s.name for s in self.sets]),
            "failed": {s.name: s.failed for s in self.sets if s.failed},
        }


def _accuracy(pooled: Pooled) -> float:
    return -pooled.accuracy


def _log_loss(pooled: Pooled) -> float:
    return pooled.log_loss


def summarise_olson(results: Iterable[Result]) -> OlsonSummary:
    """Put the results of Olson's protocol together."""
    fits = newest(r for r in results if r.protocol == "olson")
    grouped: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for (data, _, model), result in fits.items():
        grouped[data][model].append(result)
    ran = {model for (_, _, model) in fits}
    known = {name: c for name, c in contestants("olson").items() if name in ran}
    sets = [_one_set(data, models, known) for data, models in grouped.items()]
    sets.sort(key=lambda s: (s.rows, s.name))
    lacks = {name: sum(name in s.missing for s in sets) for name in known}
    whole = [m for m, c in known.items() if c.max_rows is None]
    wide = [m for m in whole if lacks[m] <= min(lacks.values()) + _FEW_SETS]
    if len(wide) < 2:  # nobody to compare it with
        wide = whole
    ours = [r for r in fits.values() if r.model == OURS]
    return OlsonSummary(
        sets=sets,
        models=wide,
        limited=[name for name in known if name not in wide],
        suite_minutes=_minutes(ours),
        suite_jobs=max((r.jobs for r in ours), default=0),
    )


def _one_set(data: str, models: dict[str, list[Result]], known: dict[str, Any]) -> OlsonSet:
    folds = {r.split for results in models.values() for r in results}
    info = find_set(data)
    takes = [name for name, c in known.items() if info is None or c.takes(info)]
    lacking = {m: len(folds - {r.split for r in models.get(m, [])}) for m in takes}
    whole = {
        m: results for m, results in models.items() if lacking.get(m) == 0 and all(r.ok for r in results)
    }
    bad = {m: [r for r in results if not r.ok] for m, results in models.items()}
    return OlsonSet(
        name=data,
        rows=0 if info is None else info.rows,
        folds=len(folds),
        scores={m: pool(results) for m, results in whole.items()},
        fit_s={m: _mean(r.fit_s for r in results) for m, results in whole.items()},
        predict_s={m: _mean(r.predict_s for r in results) for m, results in whole.items()},
        peak_mb={m: _mean(r.peak_mb or np.nan for r in results) for m, results in whole.items()},
        missing={m: n for m, n in lacking.items() if n},
        failed={
            m: f"{rs[0].error or rs[0].status} ({len(rs)} of {len(folds)})" for m, rs in bad.items() if rs
        },
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _minutes(results: Sequence[Result]) -> float:
    """Time in which at least one of these fits was running; fits side by side count once."""
    covered, end = 0.0, 0.0
    for start, stop in sorted((r.started, r.started + r.total_s) for r in results):
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered / 60.0
